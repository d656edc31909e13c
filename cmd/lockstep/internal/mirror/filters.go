package mirror

import (
	"fmt"
	"os"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// filter fills in what the flags about rules, sizes and ages mean to a Destination.
func (o *Selection) filter(do *destination.Options) (err error) {
	if do.Filters, err = ReadFilters(o.filterFrom); err != nil {
		return err
	}
	for _, f := range []struct {
		flag, value string
		size        *int64
	}{{"min-size", o.minSize, &do.MinSize}, {"max-size", o.maxSize, &do.MaxSize}} {
		if *f.size, err = config.ParseSize(f.value); err != nil || f.flag == "max-size" && f.value != "" && *f.size == 0 {
			return term.Usage(fmt.Errorf("--%s %q is no size", f.flag, f.value), "write a number of bytes, as 1500, 500k, 2M or 1.5Gi")
		}
	}
	for _, f := range []struct {
		flag, value string
		age         *time.Duration
	}{{"min-age", o.minAge, &do.MinAge}, {"max-age", o.maxAge, &do.MaxAge}} {
		if f.value == "" {
			continue
		}
		if *f.age, err = config.ParseDuration(f.value); err != nil || *f.age <= 0 {
			return term.Usage(fmt.Errorf("--%s %q is no duration", f.flag, f.value), "write one as 15m, 12h, 30d or 8w")
		}
	}
	switch {
	case do.MaxSize > 0 && do.MaxSize < do.MinSize:
		return term.Usagef("--min-size %s and --max-size %s: no resource is both", o.minSize, o.maxSize)
	case do.MaxAge > 0 && do.MaxAge <= do.MinAge:
		return term.Usagef("--min-age %s and --max-age %s: no resource is both", o.minAge, o.maxAge)
	}
	return nil
}

// HasAges reports whether resources are selected by their age.
func (o *Selection) HasAges() bool { return o.minAge+o.maxAge != "" }

// maxFilters caps a file of rules: a larger one is something else.
const maxFilters = 1 << 20

// ReadFilters reads the rules of --filter-from, in order; none if file is empty.
func ReadFilters(file string) (filters []destination.Filter, err error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, term.Usagef("--filter-from: %w", err)
	}
	if len(text) > maxFilters {
		return nil, term.Usagef("--filter-from %s: larger than %s", file, term.Size(maxFilters))
	}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		glob := strings.TrimSpace(line[1:])
		if line[0] != '+' && line[0] != '-' || glob == "" {
			return nil, term.Usage(fmt.Errorf("--filter-from %s: line %d: %q is no rule", file, n, line), "write + GLOB to select what matches, or - GLOB to leave it out; # begins a comment")
		}
		filter := destination.Filter{Include: line[0] == '+', Glob: glob}
		if err := (destination.Options{Filters: []destination.Filter{filter}}).Validate(); err != nil {
			return nil, term.Usagef("--filter-from %s: line %d: %w", file, n, err)
		}
		filters = append(filters, filter)
	}
	return filters, nil
}
