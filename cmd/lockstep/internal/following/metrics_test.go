package following

import (
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/destination"
)

// TestFollowFigures gives each number of what a follow knows a value of its own
// and finds them all among the figures: none is forgotten when one is added.
func TestFollowFigures(t *testing.T) {
	t.Parallel()
	next := int64(100)
	var state State
	state.Result.Report = &destination.Report{BySet: make([]destination.SetReport, 1), Kept: &destination.Kept{}}
	state.Result.Follow.Sets = make([]destination.SetStatus, 1)
	set := &state.Result.Follow.Sets[0]
	var want []string
	fill := func(v any) { want = append(want, distinct(reflect.ValueOf(v).Elem(), &next)...) }
	fill(&state.Result.By)
	fill(state.Result.Kept)
	fill(&state.Result.NotKept)
	fill(&state.Result.BySet[0])
	fill(set)
	fill(&state.Result.Passes)
	fill(&state.Result.PassesFailed)
	var progress destination.Progress
	fill(&progress)
	progress.Set, progress.Sets = 0, 0 // which of them, and of how many: not how far
	want = want[:len(want)-2]
	set.Name, set.URI, state.Result.BySet[0].URI = "main", "u", "u"
	state.Progress = map[string]destination.Progress{"main": progress}

	m := admin.NewMetrics()
	m.Register(func(s *admin.Figures) { reportFollow(s, &state) })
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/-/metrics", nil))
	for _, value := range want {
		if !strings.Contains(w.Body.String(), " "+value+"\n") {
			t.Errorf("no figure is %s", value)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(w.Body.String()) {
			if strings.HasPrefix(line, "lockstep_") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
}

// distinct gives each number in v a value of its own and returns how figures
// show them. SyncedUntil of a report is the Watermark of the set, Elapsed and
// lags are in seconds. AsOf, By.Memento and By.Kept are of runs with --at, which
// a follow has none of.
func distinct(v reflect.Value, next *int64) (shown []string) {
	*next++
	switch v.Kind() {
	case reflect.Struct:
		if _, ok := v.Interface().(time.Time); ok {
			v.Set(reflect.ValueOf(time.Unix(*next, 0)))
			return []string{fmt.Sprint(*next)}
		}
		for i := range v.NumField() {
			switch name := v.Type().Field(i).Name; {
			case name == "SyncedUntil", name == "AsOf":
			case v.Type() == reflect.TypeFor[destination.By]() && (name == "Memento" || name == "Kept"):
			default:
				shown = append(shown, distinct(v.Field(i), next)...)
			}
		}
		return shown
	case reflect.Int, reflect.Int64:
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(*next * int64(time.Second))
		} else {
			v.SetInt(*next)
		}
	case reflect.Float64:
		v.SetFloat(float64(*next))
	default: // names and addresses
		return nil
	}
	return []string{fmt.Sprint(*next)}
}

// TestFollowFiguresSameName tells sets of one name apart, as every figure must
// be the only one of its labels.
func TestFollowFiguresSameName(t *testing.T) {
	t.Parallel()
	var state State
	state.Result.Report = &destination.Report{}
	state.Result.Follow.Sets = []destination.SetStatus{{URI: "http://a/1", Name: "main"}, {URI: "http://a/2", Name: "main"}, {URI: "http://a/3"}}
	m := admin.NewMetrics()
	m.Register(func(s *admin.Figures) { reportFollow(s, &state) })
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/-/metrics", nil))
	for _, uri := range []string{"http://a/1", "http://a/2", "http://a/3"} {
		if want := fmt.Sprintf("lockstep_follow_pulls_total{set=%q} 0\n", uri); !strings.Contains(w.Body.String(), want) {
			t.Errorf("not among the figures: %s", want)
		}
	}
}
