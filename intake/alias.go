package intake

import (
	"maps"
	"strings"

	"lockstep/intake/internal/filestat"
)

// maxAliases bounds how many files with further names are remembered. Beyond
// it a write through another name is seen by the next full scan.
const maxAliases = 10_000

// addAlias remembers a file that can be written through another name than its
// own (a symbolic link, a hard link): no event tells of that. token is how it
// stands, or "" for a link that leads to no file.
func (d *Dir) addAlias(rel, token string, hard bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.aliases[rel]; !ok {
		if len(d.aliases) >= maxAliases {
			return
		}
		if hard {
			d.newHard = true
		}
	}
	if d.aliases == nil {
		d.aliases = make(map[string]string)
	}
	d.aliases[rel] = token
}

// takeNewHard reports whether a file with several names was met that had not
// been remembered. Nothing tells what its other names are: only a full scan
// comes by them.
func (d *Dir) takeNewHard() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	hard := d.newHard
	d.newHard = false
	return hard
}

func (d *Dir) forgetAliases() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.aliases = nil
}

// touchedAliases returns the remembered files that do not stand as they did.
func (d *Dir) touchedAliases() []string {
	t, err := d.acquire()
	if err != nil {
		return nil // the scan will say why
	}
	defer t.release()
	d.mu.Lock()
	aliases := maps.Clone(d.aliases)
	d.mu.Unlock()
	var touched []string
	for rel, token := range aliases {
		now := ""
		st, err := t.stat(rel)
		if err == nil && st.Kind == filestat.File {
			now = st.Mark()
		}
		if now == token {
			continue
		}
		touched = append(touched, rel)
		if _, err := t.lstat(rel); err != nil && vanished(err) {
			d.mu.Lock()
			delete(d.aliases, rel)
			d.mu.Unlock()
		} else {
			d.addAlias(rel, now, false)
		}
	}
	return touched
}

// maxAgain bounds the files remembered for a further look.
const maxAgain = 1000

// addAgain remembers a file that changed under a scan's eyes.
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

// elements splits a relative path.
func elements(rel string) []string { return strings.Split(rel, "/") }

// within reports whether rel is dir or lies below it.
func within(rel, dir string) bool {
	return strings.HasPrefix(rel, dir) && (len(rel) == len(dir) || rel[len(dir)] == '/')
}
