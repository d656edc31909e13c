package repository_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockstep/repository"
)

// harvestScript harvests with HTTP::OAI, an independent implementation: all
// records of a format, or those since a time, and prints them.
const harvestScript = `
use strict; use HTTP::OAI; binmode STDOUT, ":utf8";
my ($url, $prefix, $from) = @ARGV;
my $h = HTTP::OAI::Harvester->new(baseURL => $url);
my $i = $h->Identify; die $i->message if $i->is_error;
print join(" ", "repository", $i->repositoryName, $i->deletedRecord, $i->granularity, $i->earliestDatestamp), "\n";
my $sets = $h->ListSets; while (my $s = $sets->next) { print "set ", $s->setSpec, "\n" }
my $formats = $h->ListMetadataFormats; while (my $f = $formats->next) { print "format ", $f->metadataPrefix, " ", $f->metadataNamespace, "\n" }
my $l = $h->ListRecords(metadataPrefix => $prefix, $from ? (from => $from) : (), onRecord => sub {
	my $r = shift;
	my $text = $r->is_deleted ? "deleted" : $r->metadata->dom->textContent;
	$text =~ s/\s+/ /g;
	print join(" ", "record", $r->identifier, $r->datestamp, $text), "\n";
});
print join(" ", "error", map { $_->code } $l->errors), "\n" if $l->is_error || $l->errors;
my $g = $h->GetRecord(identifier => "https://example.org/none", metadataPrefix => $prefix);
print join(" ", "none:", map { $_->code } $g->errors), "\n";
`

// TestHTTPOAI reads a repository with HTTP::OAI, the harvester of EPrints: page
// by page, then the changes, including deletions.
func TestHTTPOAI(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "perl", "-MHTTP::OAI", "-e", "1").Run(); err != nil {
		t.Skip("HTTP::OAI is not installed: on Debian, apt-get install libhttp-oai-perl")
	}
	w := newWorld(t, func(o *repository.Options) { o.Records, o.Name = 2, "Ours" })
	for i := range 5 {
		w.put(fmt.Sprint("https://example.org/", i), "text/xml", fmt.Sprintf(`<mods xmlns="http://www.loc.gov/mods/v3"><title>é &lt;%d&gt;</title></mods>`, i))
	}
	server := httptest.NewServer(w.repo)
	defer server.Close()
	harvest := func(args ...string) []string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, "perl", append([]string{"-e", harvestScript, server.URL + "/oai"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	want := []string{
		"repository Ours persistent YYYY-MM-DDThh:mm:ssZ 2026-03-01T12:00:00Z", "set main",
		"format oai_dc http://www.openarchives.org/OAI/2.0/oai_dc/", "format mods http://www.loc.gov/mods/v3",
	}
	var records []string
	for i := range 5 {
		records = append(records, fmt.Sprintf("record https://example.org/%d 2026-03-01T12:00:00Z é <%d>", i, i))
	}
	compare := func(got []string, records ...string) {
		t.Helper()
		all := append(append(append([]string{}, want...), records...), "none: idDoesNotExist")
		for i := range got {
			got[i] = strings.TrimSpace(strings.ReplaceAll(got[i], "  ", " "))
		}
		if strings.Join(got, "\n") != strings.Join(all, "\n") {
			t.Errorf("HTTP::OAI says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(all, "\n"))
		}
	}
	compare(harvest("mods"), records...)
	w.pass(time.Hour)
	w.remove("https://example.org/1")
	w.put("https://example.org/3", "text/xml", `<mods xmlns="http://www.loc.gov/mods/v3">changed</mods>`)
	w.pass(time.Hour)
	compare(harvest("mods", "2026-03-01T12:00:01Z"), "record https://example.org/1 2026-03-01T13:00:00Z deleted", "record https://example.org/3 2026-03-01T13:00:00Z changed")
	compare(harvest("mods", "2026-03-01T15:00:00Z"), "error noRecordsMatch")
}

// sickleScript harvests with Sickle, an independent implementation, and prints
// the records. Between the first two parts of a list it waits for a line.
const sickleScript = `
import sys
from sickle import Sickle
from sickle.oaiexceptions import NoRecordsMatch, IdDoesNotExist
sys.stdout.reconfigure(encoding="utf-8")
s, args = Sickle(sys.argv[1]), dict(a.split("=", 1) for a in sys.argv[2:])
i = s.Identify()
print("repository", i.repositoryName, i.deletedRecord, i.granularity, i.earliestDatestamp)
print("sets", *[x.setSpec for x in s.ListSets()])
print("formats", *[x.metadataPrefix for x in s.ListMetadataFormats()])
try:
    for n, r in enumerate(s.ListRecords(**args)):
        print("record", r.header.identifier, r.header.datestamp, *r.header.setSpecs, "deleted" if r.deleted else "")
        if n == 0:
            sys.stdout.flush(); sys.stdin.readline()
except NoRecordsMatch:
    print("no records match")
print("headers", len(list(s.ListIdentifiers(metadataPrefix="oai_dc"))))
try:
    s.GetRecord(identifier="https://example.org/none", metadataPrefix="oai_dc")
except IdDoesNotExist:
    print("does not exist")
print("title", s.GetRecord(identifier="https://example.org/a", metadataPrefix="oai_dc").metadata["title"][0])
`

// sickle returns a command that runs Python with Sickle.
func sickle(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		env := append(os.Environ(), "PYTHONPATH="+os.Getenv("LOCKSTEP_SICKLE"))
		try := exec.CommandContext(t.Context(), python, "-c", "import sickle")
		if try.Env = env; try.Run() == nil {
			cmd := exec.CommandContext(t.Context(), python, append([]string{"-c", sickleScript}, args...)...)
			cmd.Env = env
			return cmd
		}
	}
	t.Skip("Sickle is not here: pip install Sickle, or name its directory in LOCKSTEP_SICKLE")
	return nil
}

// TestSickle reads a repository of two sets with Sickle, a Python harvester:
// while it changes, then only the changes, by seconds and by days.
func TestSickle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) {
		o.Records, o.Headers, o.Name = 2, 2, "Ours"
		o.Sets = append(o.Sets, repository.Set{Name: "second", Catalog: "x:second"})
	})
	server := httptest.NewServer(w.repo)
	defer server.Close()
	for _, n := range []string{"a", "b", "c", "d"} {
		w.put("https://example.org/"+n, "text/plain", n)
	}
	w.putIn("x:second", "https://example.org/d", "text/plain", "d")
	w.putIn("x:second", "https://example.org/e", "text/plain", "e")
	harvest := func(between func(), args ...string) string {
		t.Helper()
		cmd := sickle(t, append([]string{server.URL + "/oai"}, args...)...)
		var errs strings.Builder
		cmd.Stderr = &errs
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			fmt.Fprintln(&out, lines.Text())
			if strings.HasPrefix(lines.Text(), "record") && between != nil { // it waits
				between()
				between = nil
			}
			if strings.HasPrefix(lines.Text(), "record") {
				_ = stdin.Close() // closing twice is harmless
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s%s", err, &out, &errs)
		}
		return strings.ReplaceAll(out.String(), " \n", "\n")
	}
	const about = "repository Ours persistent YYYY-MM-DDThh:mm:ssZ 2026-03-01T12:00:00Z\nsets main second\nformats oai_dc\n"
	compare := func(got, records string, headers int) {
		t.Helper()
		if want := fmt.Sprintf("%s%sheaders %d\ndoes not exist\ntitle a\n", about, records, headers); got != want {
			t.Errorf("Sickle says\n%s\nwant\n%s", got, want)
		}
	}
	w.pass(time.Hour)
	got := harvest(func() {
		w.remove("https://example.org/c")
		w.put("https://example.org/f", "text/plain", "f")
	}, "metadataPrefix=oai_dc")
	compare(got, `record https://example.org/a 2026-03-01T12:00:00Z main
record https://example.org/b 2026-03-01T12:00:00Z main
record https://example.org/d 2026-03-01T12:00:00Z main second
record https://example.org/c 2026-03-01T13:00:00Z main deleted
record https://example.org/f 2026-03-01T13:00:00Z main
record https://example.org/e 2026-03-01T12:00:00Z second
`, 6)
	w.pass(24 * time.Hour)
	w.remove("https://example.org/d")
	w.put("https://example.org/a", "text/plain", "changed")
	w.pass(time.Second)
	const changed = "record https://example.org/d 2026-03-02T13:00:00Z second\nrecord https://example.org/a 2026-03-02T13:00:00Z main\n"
	compare(harvest(nil, "metadataPrefix=oai_dc", "from=2026-03-01T13:00:01Z"), changed, 6)
	compare(harvest(nil, "metadataPrefix=oai_dc", "from=2026-03-02", "until=2026-03-02"), changed, 6)
	compare(harvest(nil, "metadataPrefix=oai_dc", "set=main", "from=2026-03-02"),
		"record https://example.org/d 2026-03-02T13:00:00Z main deleted\nrecord https://example.org/a 2026-03-02T13:00:00Z main\n", 6)
	compare(harvest(nil, "metadataPrefix=oai_dc", "from=2026-03-03"), "no records match\n", 6)
}
