package intake

import "strings"

// maxAliases bounds how many files with further names are remembered. Beyond
// it a write through another name is seen by the next full scan.
const maxAliases = 10_000

// addAlias remembers a file that can be written through another name than its
// own (a symbolic link, a hard link): no event tells of that.
func (d *Dir) addAlias(rel, token string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.aliases[rel]; !ok && len(d.aliases) >= maxAliases {
		return
	}
	if d.aliases == nil {
		d.aliases = make(map[string]string)
	}
	d.aliases[rel] = token
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
	aliases := make(map[string]string, len(d.aliases))
	for rel, token := range d.aliases {
		aliases[rel] = token
	}
	d.mu.Unlock()
	var touched []string
	for rel, token := range aliases {
		st, err := t.stat(rel)
		if err != nil || string(st.appendToken(nil, "")) != token {
			touched = append(touched, rel)
		}
		if err != nil {
			d.mu.Lock()
			delete(d.aliases, rel)
			d.mu.Unlock()
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
