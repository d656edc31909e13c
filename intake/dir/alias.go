package dir

import (
	"maps"

	"lockstep/intake/internal/filestat"
)

// maxAliases limits how many files with additional names are remembered. Beyond it,
// the next full scan finds a write through another name.
const maxAliases = 10_000

// An alias is a file that can be written through a name other than its own.
type alias struct {
	token    string // its state, or "" for a link that leads to no file
	dev, ino uint64 // of a hard link
	searched bool   // a full scan has searched, or will search, for its other names
}

// addAlias remembers a file that can be written through another name than its
// own (a symbolic link, a hard link): no event reports such a write.
func (d *Dir) addAlias(rel string, a alias, hard bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old, known := d.aliases[rel]
	if !known && len(d.aliases) >= maxAliases {
		return
	}
	same := known && old.dev == a.dev && old.ino == a.ino
	a.searched = same && old.searched
	if hard && !a.searched && !(same && d.hasOtherName(rel, a)) {
		// Its name may have belonged to another file, and its other name may
		// have been read before it was one of two.
		a.searched, d.newHard = true, true
	}
	if d.aliases == nil {
		d.aliases = make(map[string]alias)
	}
	d.aliases[rel] = a
}

// addFoundAlias remembers an alias that a full scan found. past contains those known
// before the scan.
func (d *Dir) addFoundAlias(rel string, a alias, earlier map[string]alias) {
	old, known := earlier[rel]
	a.searched = known && old.dev == a.dev && old.ino == a.ino && old.searched
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.aliases[rel]; !known && len(d.aliases) >= maxAliases {
		return
	}
	if d.aliases == nil {
		d.aliases = make(map[string]alias)
	}
	d.aliases[rel] = a
}

// hasOtherName reports whether another name of the file a is known. The caller holds d.mu.
func (d *Dir) hasOtherName(rel string, a alias) bool {
	for other, o := range d.aliases {
		if other != rel && o.dev == a.dev && o.ino == a.ino && o.ino != 0 {
			return true
		}
	}
	return false
}

// takeNewHard reports whether a file with several names was found that had not
// been remembered. Only a full scan finds its other names.
func (d *Dir) takeNewHard() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	hard := d.newHard
	d.newHard = false
	return hard
}

// takeAliases returns the remembered files and forgets them.
func (d *Dir) takeAliases() map[string]alias {
	d.mu.Lock()
	defer d.mu.Unlock()
	earlier := d.aliases
	d.aliases = nil
	return earlier
}

// touchedAliases returns the remembered files whose state has changed.
func (d *Dir) touchedAliases() []string {
	t, err := d.acquire()
	if err != nil {
		return nil // the scan will report the reason
	}
	defer t.release()
	d.mu.Lock()
	aliases := maps.Clone(d.aliases)
	d.mu.Unlock()
	var touched []string
	for rel, a := range aliases {
		now := ""
		st, err := t.stat(rel)
		if err == nil && st.Kind == filestat.File {
			now = st.Mark()
		}
		if now == a.token {
			continue
		}
		touched = append(touched, rel)
		_, err = t.lstat(rel)
		d.mu.Lock()
		if err != nil && vanished(err) {
			delete(d.aliases, rel)
		} else if a, ok := d.aliases[rel]; ok { // else a full scan has begun, which will find it
			a.token = now // the scan of the file determines whether it is another one
			d.aliases[rel] = a
		}
		d.mu.Unlock()
	}
	return touched
}

// anyVanished reports whether there is nothing any more at one of the new names: it may have been another
// name of a file (a hard link) that was written through it, which no event reports.
func (d *Dir) anyVanished(created []string) bool {
	if len(created) == 0 {
		return false
	}
	t, err := d.acquire()
	if err != nil {
		return false // the scan will report the reason
	}
	defer t.release()
	for _, rel := range created {
		if _, err := t.lstat(rel); err != nil && vanished(err) {
			return true
		}
	}
	return false
}

// maxAgain limits the files remembered for another examination.
const maxAgain = 1000

// addAgain remembers a file that changed while it was being scanned.
func (d *Dir) addAgain(rel string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.again) < maxAgain {
		d.again = append(d.again, rel)
	}
}

func (d *Dir) takeAgain() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.again
	d.again = nil
	return again
}
