package webpage

import (
	"fmt"
	"strings"
)

// A Chart shows values in order, as of the days of a month: as columns, or as a line.
// It is drawn by the server as SVG, with a title, a description and a table of the same
// values. It is shown by the template "chart".
type Chart struct {
	Title  string
	Unit   string // what the values are, as "changes"
	Line   bool
	Points []Point
	Front  []float64 // parts of the values, drawn in front of the columns; nil: none
	Bad    bool      // Front is what went wrong
	Legend string    // what Points and Front are; may be empty
	Plain  bool      // without the values as text, which the page has elsewhere: much smaller
	Live   bool      // events of the page renew it
}

// A Point is one value of a Chart, or one row of Bars.
type Point struct {
	Label string
	Value float64 // not negative
	Text  string  // the value for people; by default the number
	Href  string  // where Label leads to in Bars; may be empty
}

// Shown returns the value for people.
func (p Point) Shown() string {
	if p.Text != "" {
		return p.Text
	}
	if p.Value == float64(int64(p.Value)) {
		return Count(int64(p.Value))
	}
	return fmt.Sprintf("%.3g", p.Value)
}

// the drawing's own units; it is stretched to the room there is.
const (
	chartWidth  = 1000.0
	chartHeight = 200.0
)

// A Column of a drawing.
type drawnColumn struct {
	X, Y, Width, Height string
	Point
}

// Drawn returns the columns of the chart.
func (c Chart) Drawn() []drawnColumn {
	top := c.Max().Value
	step := chartWidth / float64(max(len(c.Points), 1))
	out := make([]drawnColumn, 0, len(c.Points))
	for i, p := range c.Points {
		height := 0.0
		if top > 0 {
			height = p.Value / top * chartHeight
		}
		if p.Value > 0 {
			height = max(height, 2) // visible beside much larger ones
		}
		out = append(out, drawnColumn{units(float64(i)*step + step*0.1), units(chartHeight - height), units(step * 0.8), units(height), p})
	}
	return out
}

// Back returns the columns of the chart as one path.
func (c Chart) Back() string {
	values := make([]float64, len(c.Points))
	for i, p := range c.Points {
		values[i] = p.Value
	}
	return c.columns(values)
}

// Before returns the columns in front as one path.
func (c Chart) Before() string { return c.columns(c.Front) }

// columns returns a path with a column for each value that is not 0.
func (c Chart) columns(values []float64) string {
	top := c.Max().Value
	step := chartWidth / float64(max(len(c.Points), 1))
	var b strings.Builder
	for i, v := range values {
		if v > 0 && top > 0 {
			fmt.Fprintf(&b, "M%s %sV%sh%sV%sz", units(float64(i)*step+step*0.1), units(chartHeight), units(chartHeight-max(v/top*chartHeight, 2)), units(step*0.8), units(chartHeight))
		}
	}
	return b.String()
}

// Path returns the points of the line.
func (c Chart) Path() string {
	top := max(c.Max().Value, 1e-9)
	step := chartWidth / float64(max(len(c.Points)-1, 1))
	var b strings.Builder
	for i, p := range c.Points {
		fmt.Fprintf(&b, "%s,%s ", units(float64(i)*step), units(chartHeight-p.Value/top*chartHeight))
	}
	return strings.TrimSpace(b.String())
}

// Max returns the largest point.
func (c Chart) Max() Point {
	var top Point
	for _, p := range c.Points {
		if p.Value > top.Value {
			top = p
		}
	}
	return top
}

// First and Last return the labels at the ends of the axis.
func (c Chart) First() string {
	if len(c.Points) == 0 {
		return ""
	}
	return c.Points[0].Label
}

// Last is documented with First.
func (c Chart) Last() string {
	if len(c.Points) == 0 {
		return ""
	}
	return c.Points[len(c.Points)-1].Label
}

// Description says in words what the drawing shows.
func (c Chart) Description() string {
	if len(c.Points) == 0 {
		return "No values."
	}
	top := c.Max()
	if top.Value == 0 {
		return fmt.Sprintf("%d values from %s to %s; all are 0.", len(c.Points), c.First(), c.Last())
	}
	return fmt.Sprintf("%d values from %s to %s; the largest is %s %s at %s.", len(c.Points), c.First(), c.Last(), top.Shown(), c.Unit, top.Label)
}

// Bars compare values that have no order, as of media types: a table with a bar in
// each row. They are shown by the template "bars".
type Bars struct {
	Caption string
	Name    string // the heading of the labels
	Unit    string // the heading of the values
	Points  []Point
}

// Share returns the length of the bar of p, in hundredths of the longest.
func (b Bars) Share(p Point) string {
	top := Chart{Points: b.Points}.Max().Value
	if top == 0 {
		return "0"
	}
	return units(max(p.Value/top*100, 0.5))
}

// units formats a length in a drawing.
func units(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", f), "0"), ".")
}
