package dashboard

import (
	_ "embed"
	"fmt"
	"net/http"
	"time"

	"lockstep/cmd/lockstep/internal/recent"
	"lockstep/internal/webpage"
)

// A Measured is what was done of an activity, as JSON shows it.
type Measured struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	Hour []Step `json:"hour"` // by the minute, the oldest first
	Day  []Step `json:"day"`  // by the quarter of an hour

	title, latency string
	hour, day      []recent.Point
}

// A Step is what was done in a minute, or a quarter of an hour.
type Step struct {
	At     time.Time `json:"at"` // when it began
	Count  int64     `json:"count"`
	Failed int64     `json:"failed"`
	Bytes  int64     `json:"bytes"`
	Half   *float64  `json:"p50_seconds,omitempty"` // the median; left out if there is none
	Most   *float64  `json:"p95_seconds,omitempty"`
}

// measure returns what was done of an activity until now.
func (d *Dashboard) measure(a *Activity, now time.Time) Measured {
	m := Measured{Name: a.Name, Unit: a.Unit, title: a.Title, latency: a.Latency}
	m.hour, m.day = d.history.Points(a.Name, recent.Hour(), now), d.history.Points(a.Name, recent.Day(), now)
	m.Hour, m.Day = steps(m.hour), steps(m.day)
	return m
}

func steps(points []recent.Point) []Step {
	all := make([]Step, len(points))
	for i := range points {
		p := &points[i]
		all[i] = Step{At: p.At, Count: p.Count, Failed: p.Failed, Bytes: p.Bytes}
		if p.Latency.Count() > 0 {
			half, most := p.Latency.Quantile(half).Seconds(), p.Latency.Quantile(most).Seconds()
			all[i].Half, all[i].Most = &half, &most
		}
	}
	return all
}

// The quantiles that are shown.
const half, most = 0.5, 0.95

// sentence sums up a span.
func (m *Measured) sentence(span string, points []recent.Point) string {
	var sum recent.Total
	for i := range points {
		sum.Add(&points[i].Total)
	}
	text := fmt.Sprintf("Last %s: %s %s, %s failed", span, webpage.Count(sum.Count), m.Unit, webpage.Count(sum.Failed))
	if sum.Bytes > 0 {
		text += ", " + webpage.Size(sum.Bytes)
	}
	if sum.Latency.Count() > 0 {
		text += "; " + m.latency + ": median " + brief(sum.Latency.Quantile(half)) + ", 95th percentile " + brief(sum.Latency.Quantile(most))
	}
	return text + "."
}

// charts returns the charts of both spans, side by side.
func (m *Measured) charts() []webpage.Chart {
	const hour, day, minutes, quarters = "last hour", "last day", "by the minute", "by the quarter of an hour"
	all := []webpage.Chart{m.throughput(hour, minutes, m.hour), m.throughput(day, quarters, m.day)}
	if m.latency != "" {
		all = append(all, m.durations(hour, minutes, m.hour), m.durations(day, quarters, m.day))
	}
	return all
}

// clock is how the beginning of a step is shown.
const clock = "15:04Z"

func (m *Measured) throughput(span, step string, points []recent.Point) webpage.Chart {
	c := webpage.Chart{Title: m.title + ", " + span, Unit: m.Unit, Bad: true, Plain: true, Legend: step + "; in red, what failed"}
	for i := range points {
		p := &points[i]
		c.Points = append(c.Points, webpage.Point{Label: p.At.Format(clock), Value: float64(p.Count + p.Failed)})
		c.Front = append(c.Front, float64(p.Failed))
	}
	return c
}

func (m *Measured) durations(span, step string, points []recent.Point) webpage.Chart {
	c := webpage.Chart{Title: m.title + ", " + m.latency + ", " + span, Unit: "95th percentile", Plain: true, Legend: step + "; strong color: the median, whole bar: the 95th percentile"}
	for i := range points {
		p := &points[i]
		q := p.Latency.Quantile(most)
		c.Points = append(c.Points, webpage.Point{Label: p.At.Format(clock), Value: q.Seconds(), Text: brief(q)})
		c.Front = append(c.Front, p.Latency.Quantile(half).Seconds())
	}
	return c
}

// brief formats a duration for people.
func brief(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1e3)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

//go:embed activity.html
var activityHTML string

var activityView = webpage.Parse(activityHTML)

// activity shows one activity, with the figures as tables.
func (d *Dashboard) activity(r *http.Request, o *Overview) (any, webpage.Page, *webpage.View, error) {
	for i := range o.Activities {
		m := &o.Activities[i]
		if m.Name != r.URL.Query().Get("of") {
			continue
		}
		data := struct {
			Charts []webpage.Chart
			Tables []webpage.Table
			JSON   string
		}{Charts: m.charts(), Tables: []webpage.Table{m.table("Last hour, by the minute", m.hour), m.table("Last day, by the quarter of an hour", m.day)}, JSON: jsonOf("activity", r)}
		return m, webpage.Page{Title: m.title, Lead: m.sentence("hour", m.hour) + " " + m.sentence("day", m.day), Nav: "./", Data: data}, activityView, nil
	}
	return nil, webpage.Page{}, nil, &problem{http.StatusNotFound, "there is no such activity: the overview names them"}
}

// table returns the steps in which something was done, the newest first.
func (m *Measured) table(caption string, points []recent.Point) webpage.Table {
	t := webpage.Table{Caption: caption, Empty: caption + ": nothing.", Columns: []webpage.Column{
		{Title: "From"}, {Title: "Done", Numeric: true}, {Title: "Failed", Numeric: true}, {Title: "Bytes", Numeric: true},
	}}
	if m.latency != "" {
		t.Columns = append(t.Columns, webpage.Column{Title: "Median", Numeric: true}, webpage.Column{Title: "95th percentile", Numeric: true})
	}
	for i := range points {
		p := &points[len(points)-1-i]
		if p.Total == (recent.Total{}) {
			continue
		}
		row := webpage.Row{Cells: webpage.Cells(webpage.Stamp(p.At), webpage.Count(p.Count), webpage.Count(p.Failed), webpage.Size(p.Bytes))}
		if m.latency != "" {
			row.Cells = append(row.Cells, webpage.Cells(brief(p.Latency.Quantile(half)), brief(p.Latency.Quantile(most)))...)
		}
		if p.Failed > 0 {
			row.Mark = "bad"
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
