package lockstep_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// metricName is the name of a metric of ours in code, rules and dashboards.
var metricName = regexp.MustCompile(`lockstep_[a-z0-9_]+`)

// TestMonitoringFiles: the alerts and the dashboard use metrics that there are.
func TestMonitoringFiles(t *testing.T) {
	t.Parallel()
	known := metricsInCode(t)
	used := 0
	for _, e := range expressions(t) {
		for _, name := range metricName.FindAllString(e, -1) {
			used++
			name = strings.TrimSuffix(name, "_bucket")
			if !slices.ContainsFunc(known, func(k string) bool {
				return k == name || strings.HasSuffix(k, "_") && strings.HasPrefix(name, k) // the rest of the name is a variable
			}) {
				t.Errorf("there is no metric %s, which %q uses", name, e)
			}
		}
	}
	if used < 20 {
		t.Errorf("%d uses of metrics were found", used)
	}
}

// metricsInCode returns the names of metrics, and the beginnings of those that are put
// together.
func metricsInCode(t *testing.T) (names []string) {
	t.Helper()
	literal := regexp.MustCompile(`"(lockstep_[a-z0-9_]+)"`)
	err := filepath.WalkDir("cmd/lockstep/internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range literal.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// expressions returns those of the alerts and of the dashboard.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("deploy/prometheus/lockstep.rules.yml")
	if err == nil {
		err = yaml.Unmarshal(text, &rules)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all = append(all, r.Expr)
		}
	}
	return append(all, dashboardExpressions(t)...)
}

func dashboardExpressions(t *testing.T) (all []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Type, Title, Description string
			Targets                  []struct{ Expr, LegendFormat string }
		}
	}
	text, err := os.ReadFile("deploy/grafana/lockstep.json")
	if err == nil {
		err = json.Unmarshal(text, &dashboard)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if p.Title == "" || p.Type != "row" && (p.Description == "" || len(p.Targets) == 0) {
			t.Errorf("panel %q has no title, no description or no expression", p.Title)
		}
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

// TestPrometheusLoadsTheRules: Prometheus' own checker accepts the alerts, the scrape
// configuration and the expressions of the dashboard, and the tests of the alerts pass.
func TestPrometheusLoadsTheRules(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is missing (Debian package prometheus): the alerts are not loaded")
	}
	variables := strings.NewReplacer("$job", ".+", "$instance", ".+", "$__rate_interval", "5m")
	var b strings.Builder
	b.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for i, e := range dashboardExpressions(t) {
		fmt.Fprintf(&b, "  - record: panel_%d\n    expr: %q\n", i, variables.Replace(e))
	}
	dashboard := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(dashboard, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", "lockstep.rules.yml"}, {"test", "rules", "lockstep.test.yml"},
		{"check", "config", "--syntax-only", "scrape.yml"}, {"check", "rules", dashboard},
	} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestGrafanaKnowsTheDashboard: the dashboard is what Grafana's own schema describes. The
// directory of LOCKSTEP_TEST_GRAFANA has the npm packages @grafana/schema and typescript.
func TestGrafanaKnowsTheDashboard(t *testing.T) {
	t.Parallel()
	packages := os.Getenv("LOCKSTEP_TEST_GRAFANA")
	if packages == "" {
		t.Skip("LOCKSTEP_TEST_GRAFANA names no directory with Grafana's schema: the dashboard is not compared with it")
	}
	text, err := os.ReadFile("deploy/grafana/lockstep.json")
	if err != nil {
		t.Fatal(err)
	}
	// Text in JSON has no types: the value of an enumeration is one of any type.
	dashboard := strings.ReplaceAll(string(text), `"mode": "absolute"`, `"mode": "absolute" as any`)
	program := filepath.Join(packages, "dashboard.ts")
	source := "import type { Dashboard } from '@grafana/schema';\nexport const dashboard: Dashboard = " + dashboard + ";\n"
	if err := os.WriteFile(program, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	check := exec.Command(filepath.Join(packages, "node_modules", ".bin", "tsc"), "--noEmit", "--strict", "--skipLibCheck", "--moduleResolution", "bundler", "--module", "esnext", "dashboard.ts")
	check.Dir = packages
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
