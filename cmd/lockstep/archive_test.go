package main

import (
	"strings"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/source"
)

func TestParseKeep(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]config.KeepValue{
		"all": {All: true}, "1": {Count: 1}, " 12 ": {Count: 12}, "90d": {Age: 90 * day}, "12w": {Age: 84 * day}, "720h": {Age: 30 * day}, "1h30m": {Age: 90 * time.Minute},
		"9999w": {Age: 9999 * 7 * day},
	} {
		if got, err := config.ParseKeep(text); err != nil || got != want {
			t.Errorf("parseKeep(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "none", "All", "1.5", "0d", "-3d", "0h", "-1h", "10000d", "1y", "d", "3 d", "99999999999999999999", "1e3"} {
		if got, err := config.ParseKeep(text); err == nil {
			t.Errorf("parseKeep(%q) = %+v, want an error", text, got)
		}
	}
}

// TestParseArchive reads the forms in which archives are configured.
func TestParseArchive(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]source.Archive{
		"{resource_lists: 12}":                     {ResourceLists: &source.Retain{Count: 12, Every: day}},
		"{resource_lists: {keep: 90d, every: 1h}}": {ResourceLists: &source.Retain{Age: 90 * day, Every: time.Hour}},
		"{resource_lists: {every: 1d}}":            {ResourceLists: &source.Retain{All: true, Every: day}},
		"{resource_lists: {every: 1w}}":            {ResourceLists: &source.Retain{All: true, Every: 7 * day}},
		"{resource_lists: {every: 0s}}":            {ResourceLists: &source.Retain{All: true}},
		"{resource_lists: {keep: all}}":            {ResourceLists: &source.Retain{All: true, Every: day}},
		"{change_lists: all, change_dumps: 3}":     {ChangeLists: &source.Retain{All: true}, ChangeDumps: &source.Retain{Count: 3}},
		"{resource_dumps: 4w}":                     {ResourceDumps: &source.Retain{Age: 28 * day}},
		"{resource_lists: , change_lists: 1}":      {ChangeLists: &source.Retain{Count: 1}},
	} {
		c, err := config.Parse([]byte("sets:\n- {from: 'dir:/a', archive: " + text + "}\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := c.Sets[0].Archive.Archive(true)
		for _, k := range []struct{ got, want *source.Retain }{
			{got.ResourceLists, want.ResourceLists}, {got.ResourceDumps, want.ResourceDumps}, {got.ChangeLists, want.ChangeLists}, {got.ChangeDumps, want.ChangeDumps},
		} {
			if (k.got == nil) != (k.want == nil) || k.got != nil && *k.got != *k.want {
				t.Errorf("%s: %+v, want %+v", text, k.got, k.want)
			}
		}
		if l := c.Sets[0].Archive.Archive(false).ResourceLists; l != nil && c.Sets[0].Archive.ResourceLists.Every == nil && l.Every != 0 {
			t.Errorf("%s: published once, lists are %s apart, want each", text, l.Every)
		}
	}
	for text, want := range map[string]string{
		"{resource_list: 1}":              "unknown key",
		"{resource_lists: {kept: 1}}":     "unknown key",
		"{resource_lists: {keep: 0}}":     "is not a valid value",
		"{resource_lists: {every: soon}}": "no duration",
		"{change_lists: {keep: all}}":     "want all, a number, or a time",
		"{change_lists: [1]}":             "want all, a number, or a time",
		"12":                              "want keys",
	} {
		_, err := config.Parse([]byte("sets:\n- {from: 'dir:/a', archive: " + text + "}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to say %q", text, err, want)
		}
	}
}
