package bridge_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lockstep/oaipmh/oaipmhtest"
)

// TestHalfHarvest: a mirror of a repository whose second page cannot be read does not say that
// nothing could be read.
func TestHalfHarvest(t *testing.T) {
	t.Parallel()
	repo := oaipmhtest.New(oaipmhtest.Options{Records: 250, PageSize: 100})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("resumptionToken") != "" {
			http.NotFound(w, r)
			return
		}
		repo.ServeHTTP(w, r)
	}))
	defer srv.Close()
	r, _ := newMirror(t, srv.URL+"/oai").sync() // the report has the failure
	if r.Created != 100 || len(r.Unproven) == 0 {
		t.Errorf("%+v", r)
	}
	for _, u := range r.Unproven {
		if strings.Contains(u.Reason, "nothing of it could be read") {
			t.Errorf("%d records were created: %s", r.Created, u.Reason)
		}
	}
}
