package repository_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockstep/repository"
)

// harvestScript harvests with HTTP::OAI, which nobody here wrote: all records of
// a format, or those since a time, and prints them.
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

// TestHTTPOAI has HTTP::OAI, the harvester of EPrints, read a repository: page by
// page, then what has changed, deletions among it.
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
