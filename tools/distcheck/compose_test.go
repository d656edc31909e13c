package distcheck

import (
	"os"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestCompose: every service runs a command of the image, without any privileges, and
// its state survives the container.
func TestCompose(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(result(t, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	type service struct {
		Image       string
		Command     []string
		ReadOnly    bool     `yaml:"read_only"`
		CapDrop     []string `yaml:"cap_drop"`
		SecurityOpt []string `yaml:"security_opt"`
		Volumes     []string
	}
	var compose struct{ Services map[string]service }
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	if len(compose.Services) != 3 {
		t.Errorf("there are %d services, want 3", len(compose.Services))
	}
	for name, s := range compose.Services {
		if s.Image != "lockstep:latest" || !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s runs %s with more than it needs: %+v", name, s.Image, s)
		}
		if len(s.Command) == 0 || !slices.Contains([]string{"serve", "hub", "follow"}, s.Command[0]) {
			t.Errorf("%s runs %q", name, s.Command)
		}
		if !slices.ContainsFunc(s.Volumes, func(v string) bool { return v == "state:/var/lib/lockstep" || v == "mirror:/var/lib/lockstep" }) {
			t.Errorf("%s has no volume for its state: %q", name, s.Volumes)
		}
	}
}
