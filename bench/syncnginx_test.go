//go:build linux

package bench

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lockstep/internal/freeport"
)

// BenchmarkSyncNginx sets the first sync of a collection that nginx serves, from files
// that `lockstep publish` wrote, beside `curl --parallel` getting the same resources to
// files: over HTTP, and over TLS with HTTP/1.1 alone and with HTTP/2 offered, where curl
// is the better of both protocols. All in turn, as processes; the times are medians.
func BenchmarkSyncNginx(b *testing.B) {
	needs(b, "nginx", "curl")
	dir := benchDir(b, "lockstep-nginx-*")
	program := filepath.Join(dir, "lockstep")
	if out, err := exec.Command("go", "build", "-o", program, "lockstep/cmd/lockstep").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	files := filepath.Join(dir, "files")
	writeResources(b, files)
	certificate := selfSigned(b, dir)
	sites := []*nginxSite{
		{name: "http", scheme: "http", protocols: []string{"--http1.1"}},
		{name: "tls-1.1", scheme: "https", more: "ssl", protocols: []string{"--http1.1"}},
		{name: "tls-2", scheme: "https", more: "ssl http2", protocols: []string{"--http1.1", "--http2"}},
	}
	serveSites(b, dir, program, files, sites)
	for b.Loop() {
		for _, s := range sites {
			s.measure(b, program, certificate)
		}
	}
}

// writeResources writes the files of a collection to dir.
func writeResources(b *testing.B, dir string) {
	b.Helper()
	for i := range *syncFiles {
		body := make([]byte, *syncSize)
		_, _ = rand.Read(body) // never fails
		name := filepath.Join(dir, resourcePath(i))
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, body, 0o666); err != nil {
			b.Fatal(err)
		}
	}
}

// An nginxSite is one address at which nginx serves the collection.
type nginxSite struct {
	name, scheme string
	more         string   // parameters of nginx's listen
	protocols    []string // options of curl
	base, list   string   // its address; a configuration for curl
}

// serveSites publishes files for each site, and has nginx serve them.
func serveSites(b *testing.B, dir, program, files string, sites []*nginxSite) {
	b.Helper()
	var servers bytes.Buffer
	for _, s := range sites {
		address, err := freeport.Address(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		s.base = s.scheme + "://" + address + "/"
		docs := filepath.Join(dir, s.name)
		publish := exec.Command(program, "publish", files, "-q", "--out", docs, "--base-url", s.base, "--state", docs+"-state")
		if out, err := publish.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		var list bytes.Buffer
		for i := range *syncFiles {
			path := resourcePath(i)
			fmt.Fprintf(&list, "url = %q\noutput = %q\n", s.base+path[1:], path[1:])
		}
		s.list = filepath.Join(dir, s.name+".txt")
		if err := os.WriteFile(s.list, list.Bytes(), 0o666); err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(&servers, `  server { listen %s %s; root %s;
    location /resourcesync/ { root %[4]s; } location /.well-known/ { root %[4]s; } location = /robots.txt { root %[4]s; } }
`, address, s.more, files, docs)
	}
	tls := fmt.Sprintf("  ssl_certificate %[1]s/cert.pem; ssl_certificate_key %[1]s/key.pem; ssl_session_cache shared:all:1m;\n", dir)
	runNginx(b, dir, sites[0].base[len("http://"):len(sites[0].base)-1], tls+servers.String())
	resp, err := http.Get(sites[0].base + "resourcesync/main/resourcelist.xml")
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("nginx answers %v, %v", resp, err)
	}
	_ = resp.Body.Close()
}

// measure sets the sync of a site beside curl.
func (s *nginxSite) measure(b *testing.B, program, certificate string) {
	var ours, oursCPU []float64
	curls, curlsCPU := make([][]float64, len(s.protocols)), make([][]float64, len(s.protocols))
	var rss int64
	run := func(dest string, c *exec.Cmd) (wall, cpu float64) {
		wall, peak := timed(b, c)
		if c.Args[0] == program {
			rss = max(rss, peak)
		}
		_ = os.RemoveAll(dest) // on a memory disk
		return wall, (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
	}
	for range *syncRounds {
		dest := benchDir(b, "lockstep-sync-")
		wall, cpu := run(dest, exec.Command(program, "sync", s.base, dest, "-q", "--ca-file", certificate))
		ours, oursCPU = append(ours, wall), append(oursCPU, cpu)
		for i, protocol := range s.protocols {
			out := benchDir(b, "lockstep-curl-")
			wall, cpu := run(out, exec.Command("curl", "--silent", "--no-progress-meter", "--fail", protocol, "--cacert", certificate, "--parallel", "--parallel-max", "64",
				"--create-dirs", "--output-dir", out, "--config", s.list))
			curls[i], curlsCPU[i] = append(curls[i], wall), append(curlsCPU[i], cpu)
		}
	}
	best := 0
	for i := range curls {
		if median(curls[i]) < median(curls[best]) {
			best = i
		}
	}
	b.ReportMetric(median(ours), s.name+"-s")
	b.ReportMetric(median(ours)/median(curls[best]), s.name+"/curl")
	b.ReportMetric(median(oursCPU)/median(curlsCPU[best]), s.name+"/curl-cpu")
	b.ReportMetric(float64(rss)/(1<<20), s.name+"-MB")
}

// selfSigned writes a certificate for 127.0.0.1 and its key to dir, and returns the name
// of the former.
func selfSigned(b *testing.B, dir string) string {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "benchmark"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		b.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		b.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return filepath.Join(dir, "cert.pem")
}
