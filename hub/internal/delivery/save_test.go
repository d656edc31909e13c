package delivery

import (
	"testing"
	"time"

	"lockstep/hub/hubstore"
)

// A removal that is merged with the row of a newer subscription deletes only the row it is for.
func TestMergeRemovals(t *testing.T) {
	t.Parallel()
	key, at := hubstore.KeyOf("https://example.org/t", "https://example.org/c"), time.Now()
	row := hubstore.Subscription{Key: key, Created: at, Expires: at.Add(time.Hour)}
	put, remove := hubstore.Changes{Put: []hubstore.Subscription{row}}, hubstore.Removal{Key: key, Created: at, Expires: row.Expires}
	former := hubstore.Removal{Key: key, Created: at.Add(-time.Hour), Expires: at}
	removing := func(r hubstore.Removal) hubstore.Changes { return hubstore.Changes{Remove: []hubstore.Removal{r}} }
	for _, tt := range []struct {
		name   string
		all    []hubstore.Changes
		put    bool
		remove []hubstore.Removal
	}{
		{"a former one", []hubstore.Changes{put, removing(former)}, true, nil},
		{"removed before", []hubstore.Changes{removing(former), put}, true, nil},
		{"itself: the store may have a former one", []hubstore.Changes{put, removing(remove)}, false, []hubstore.Removal{{Key: key}}},
		{"itself, and again", []hubstore.Changes{put, removing(remove), removing(former)}, false, []hubstore.Removal{{Key: key}}},
		{"not put here", []hubstore.Changes{removing(remove), {}}, false, []hubstore.Removal{remove}},
	} {
		c := merge(tt.all)
		if len(c.Put) == 1 != tt.put || len(c.Remove) != len(tt.remove) || len(c.Remove) == 1 && c.Remove[0] != tt.remove[0] {
			t.Errorf("%s: put %d, remove %+v; want %v and %+v", tt.name, len(c.Put), c.Remove, tt.put, tt.remove)
		}
	}
}
