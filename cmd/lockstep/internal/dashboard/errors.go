package dashboard

import (
	_ "embed"
	"net/http"
	"time"

	"lockstep/cmd/lockstep/internal/recent"
	"lockstep/internal/webpage"
)

//go:embed errors.html
var errorsHTML string

var errorsView = webpage.Parse(errorsHTML)

// errors shows the errors that there are, and those of the last days.
func (d *Dashboard) errors(_ *http.Request, o *Overview) (any, webpage.Page, *webpage.View, error) {
	all := o.Errors
	if all == nil {
		all = []recent.Problem{}
	}
	shown := webpage.Page{Title: "Errors", Lead: o.Summary, Nav: "errors", Data: errorTable(all, o.At)}
	return map[string]any{"errors": all}, shown, errorsView, nil
}

// errorTable shows errors with their remedies.
func errorTable(all []recent.Problem, now time.Time) webpage.Table {
	t := webpage.Table{Caption: "Errors of the last days", Empty: "None, as far as is known.", Columns: []webpage.Column{
		{Title: "Of"}, {Title: "Error", Wide: true}, {Title: "What to do", Wide: true}, {Title: "Since"}, {Title: "Until"},
	}}
	for i := range all {
		p := &all[i]
		row := webpage.Row{Cells: webpage.Cells(shorten(p.What), shorten(p.Error), shorten(p.Hint), webpage.Ago(p.Since, now), "now"), Mark: "bad"}
		row.Cells[3].Title = webpage.Stamp(p.Since)
		if !p.Until.IsZero() {
			row.Mark = ""
			row.Cells[4] = webpage.Cell{Text: webpage.Ago(p.Until, now), Title: webpage.Stamp(p.Until)}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
