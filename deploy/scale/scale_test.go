//go:build linux

package scale_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"go.yaml.in/yaml/v3"

	"lockstep/internal/freeport"
	"lockstep/storage/postgres/postgrestest"
)

// patience is how long anything may take, on a busy machine.
const patience = 2 * time.Minute

// The services of compose.yaml run as processes of this machine, with their commands and
// files as they are but for addresses: what is put into the bucket of the Source comes to
// that of the mirror, also if either process of each service is killed, and if the database or
// the service for buckets is restarted.
func TestCompose(t *testing.T) {
	t.Parallel()
	c := load(t)
	for _, name := range []string{"hub-1", "hub-2"} {
		c.start(name)
	}
	c.put("first.txt")
	for _, name := range []string{"source-1", "source-2"} {
		c.start(name)
	}
	c.startBalancer()
	for _, name := range []string{"data", "hub"} {
		c.within(name+" behind the balancer", func() bool { return c.status(c.urlOf(name)+"-/readyz") == http.StatusOK })
	}
	for _, name := range []string{"mirror-1", "mirror-2"} {
		c.start(name)
	}
	c.arrives("first.txt")
	c.within("a subscription", func() bool { return strings.Contains(c.log("mirror-1")+c.log("mirror-2"), "notified by the hub") })
	c.put("second.txt")
	c.arrives("second.txt") // sooner than the mirror polls
	all := func(n string, do func(name string)) {
		for _, name := range []string{"source", "hub", "mirror"} {
			do(name + n)
		}
	}
	all("-1", c.kill)
	c.put("third.txt")
	c.arrives("third.txt")
	all("-1", c.start)
	all("-2", c.kill)
	c.put("fourth.txt")
	c.arrives("fourth.txt")
	c.postgres.Restart(t)
	c.put("database.txt")
	c.arrives("database.txt")
	c.kill("s3")
	time.Sleep(3 * time.Second) // in which all notice
	c.startBuckets()
	c.put("buckets.txt")
	c.arrives("buckets.txt")
	all("-1", func(name string) {
		if !c.runs(name) {
			t.Errorf("%s has ended", name)
		}
	})
	c.within("the same contents", func() bool {
		return slices.Equal(c.objects("articles", ""), c.objects("copies", "articles/articles/"))
	})
}

// A deployment is what compose.yaml describes, on this machine.
type deployment struct {
	t         *testing.T
	dir       string // of its files
	program   string
	services  map[string]service
	addresses map[string]string // by what they replace
	postgres  *postgrestest.Server
	store     *minio.Client
	running   map[string]*running
}

type service struct {
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
}

// load starts the services that are not ours.
func load(t *testing.T) *deployment {
	t.Helper()
	for _, program := range []string{"versitygw", "nginx"} {
		if _, err := lookPath(program); err != nil {
			t.Skip(program + " is not installed")
		}
	}
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Services map[string]service }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	c := &deployment{t: t, dir: t.TempDir(), services: file.Services, addresses: map[string]string{}, running: map[string]*running{}}
	c.prepare()
	c.program = filepath.Join(t.TempDir(), "lockstep")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", c.program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c.postgres = postgrestest.Start(t)
	for _, name := range []string{"source", "hub", "mirror"} {
		c.addresses["postgres://lockstep@postgres:5432/"+name] = c.database(name)
	}
	port := freePort(t)
	for i, name := range []string{"data", "hub", "mirror"} { // the balancer distinguishes them by name
		c.addresses["http://"+name+".example.org/"] = fmt.Sprintf("http://127.0.0.%d:%s/", i+1, port)
		c.addresses[name+".example.org"] = fmt.Sprintf("127.0.0.%d", i+1)
	}
	c.addresses["listen 80"] = "listen " + port
	for name := range file.Services {
		c.addresses[name+":8080"] = "127.0.0.1:" + freePort(t)
	}
	c.addresses["http://s3:7070"] = "http://127.0.0.1:" + freePort(t)
	c.addresses["172.30.80.0/24"] = "127.0.0.0/8"
	c.addresses["/etc/lockstep/"] = c.dir + "/"
	c.addresses["scan_interval: 10s"] = "scan_interval: 1s"
	for _, name := range []string{"lockstep.yaml", "nginx.conf"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(c.here(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.startBuckets()
	return c
}

// prepare runs prepare.sh, and notes the variables that it sets.
func (c *deployment) prepare() {
	c.t.Helper()
	text, err := os.ReadFile("prepare.sh")
	if err == nil {
		err = os.WriteFile(filepath.Join(c.dir, "prepare.sh"), text, 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if out, err := exec.CommandContext(c.t.Context(), "sh", filepath.Join(c.dir, "prepare.sh")).CombinedOutput(); err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
	env, err := os.ReadFile(filepath.Join(c.dir, ".env"))
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(env)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		c.addresses["${"+name+":?run prepare.sh}"] = value
	}
}

// database makes a schema, which a service uses like a database, and returns its address.
func (c *deployment) database(name string) string {
	c.t.Helper()
	db, err := sql.Open("pgx", c.postgres.URL)
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(c.t.Context(), `CREATE SCHEMA of_`+name); err != nil {
		c.t.Fatal(err)
	}
	u, err := url.Parse(c.postgres.URL)
	if err != nil {
		c.t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", "of_"+name)
	u.RawQuery = q.Encode()
	return u.String()
}

// here replaces addresses by those of this machine, the longest first.
func (c *deployment) here(text string) string {
	names := make([]string, 0, len(c.addresses))
	for name := range c.addresses {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	for _, name := range names {
		text = strings.ReplaceAll(text, name, c.addresses[name])
	}
	return text
}

func (c *deployment) urlOf(name string) string { return c.addresses["http://"+name+".example.org/"] }

// environment returns the environment of a service.
func (c *deployment) environment(name string) []string {
	c.t.Helper()
	env := append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(c.dir, "state-of-"+name))
	for key, value := range c.services[name].Environment {
		value = c.here(value)
		if strings.Contains(value, "${") {
			c.t.Fatalf("%s of %s is %s, which prepare.sh does not set", key, name, value)
		}
		env = append(env, key+"="+value)
	}
	return env
}

// startBuckets starts the S3 service, with its buckets.
func (c *deployment) startBuckets() {
	c.t.Helper()
	data := filepath.Join(c.dir, "data")
	for _, name := range c.services["buckets"].Command {
		if rest, ok := strings.CutPrefix(name, "/data/"); ok {
			if err := os.MkdirAll(filepath.Join(data, rest), 0o700); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	address := strings.TrimPrefix(c.addresses["http://s3:7070"], "http://")
	args := slices.Clone(c.services["s3"].Command)
	for i := range args {
		args[i] = strings.ReplaceAll(strings.ReplaceAll(args[i], ":7070", address), "/data", data)
	}
	program, err := lookPath("versitygw")
	if err != nil {
		c.t.Fatal(err)
	}
	c.run("s3", program, args)
	value := func(name string) string { return c.addresses["${"+name+":?run prepare.sh}"] }
	c.store, err = minio.New(address, &minio.Options{Creds: credentials.NewStaticV4(value("S3_ACCESS_KEY"), value("S3_SECRET_KEY"), ""), Region: "us-east-1"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.within("the S3 service", func() bool {
		ok, err := c.store.BucketExists(c.t.Context(), "copies")
		return err == nil && ok
	})
}

// startBalancer starts nginx with nginx.conf, which a file around it includes, as that of the
// image does.
func (c *deployment) startBalancer() {
	c.t.Helper()
	program, err := lookPath("nginx")
	if err != nil {
		c.t.Fatal(err)
	}
	temporary := ""
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += fmt.Sprintf("%s_temp_path %s;\n", name, filepath.Join(c.dir, name))
	}
	file := filepath.Join(c.dir, "around.conf")
	text := fmt.Sprintf("daemon off;\nmaster_process off;\npid %s/nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n%sinclude %s/nginx.conf;\n}\n", c.dir, temporary, c.dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.run("balancer", program, []string{"-c", file, "-p", c.dir, "-e", "stderr"})
}

// start starts a service of ours.
func (c *deployment) start(name string) {
	c.t.Helper()
	args := slices.Clone(c.services[name].Command)
	address := c.addresses[name+":8080"]
	for i := range args {
		args[i] = c.here(strings.ReplaceAll(args[i], "0.0.0.0:8080", address))
	}
	if args[0] == "serve" {
		args = append(args, "--listen", address) // in place of that in lockstep.yaml
	}
	c.run(name, c.program, args)
}

// A running process of a service.
type running struct {
	cmd  *exec.Cmd
	log  string // a file
	done chan struct{}
}

func (c *deployment) run(name, program string, args []string) {
	c.t.Helper()
	log, err := os.CreateTemp(c.dir, name+"-*.log")
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close() // the process has it
	r := &running{cmd: exec.Command(program, args...), log: log.Name(), done: make(chan struct{})}
	r.cmd.Env = c.environment(name)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if err := r.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait() // it is killed
	}()
	c.running[name] = r
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("%s:\n%s", name, r.text())
		}
		_ = r.cmd.Process.Kill() // it may have ended
		<-r.done
	})
}

func (c *deployment) kill(name string) {
	c.t.Helper()
	r := c.running[name]
	if err := r.cmd.Process.Kill(); err != nil {
		c.t.Errorf("%s has ended by itself: %v", name, err)
	}
	<-r.done
}

// runs reports whether a service has not ended.
func (c *deployment) runs(name string) bool {
	select {
	case <-c.running[name].done:
		return false
	default:
		return true
	}
}

func (c *deployment) log(name string) string { return c.running[name].text() }

// text returns what the process has written.
func (r *running) text() string {
	text, err := os.ReadFile(r.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (c *deployment) put(name string) {
	c.t.Helper()
	text := "content of " + name
	if _, err := c.store.PutObject(c.t.Context(), "articles", name, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// arrives waits until the mirror has an object.
func (c *deployment) arrives(name string) {
	c.t.Helper()
	began := time.Now()
	c.within(name+" in the mirror", func() bool {
		o, err := c.store.GetObject(c.t.Context(), "copies", path.Join("articles/articles", name), minio.GetObjectOptions{})
		if err != nil {
			return false
		}
		defer o.Close()
		text, err := io.ReadAll(o)
		return err == nil && string(text) == "content of "+name
	})
	c.t.Logf("%s is in the mirror after %.1f s", name, time.Since(began).Seconds())
}

// objects returns the names of the objects below a prefix.
func (c *deployment) objects(bucket, prefix string) (names []string) {
	c.t.Helper()
	for o := range c.store.ListObjects(c.t.Context(), bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			c.t.Fatal(o.Err)
		}
		names = append(names, strings.TrimPrefix(o.Key, prefix))
	}
	return names
}

func (c *deployment) status(url string) int {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	_ = r.Body.Close() // nothing is read of it
	return r.StatusCode
}

func (c *deployment) within(what string, ok func() bool) {
	c.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// freePort returns a port at which nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// lookPath finds programs of the system, too.
func lookPath(name string) (string, error) {
	file, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		return exec.LookPath("/usr/sbin/" + name)
	}
	return file, err
}
