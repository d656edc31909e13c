package aggregator

// maxWaiting is how many links of an upstream wait for the resource that they lead to.
// Those beyond are found by the next comparison of all.
const maxWaiting = 4096

// A waiting remembers links to resources that the mirror does not have: should they come,
// the resources with the links have to be translated again. The zero value is empty.
type waiting struct {
	from map[string][]string // URIs of resources with links, by where these lead
	n    int                 // how many of them
}

// add remembers a link.
func (w *waiting) add(from, to string) {
	if w.from == nil {
		w.from = map[string][]string{}
	}
	for w.n >= maxWaiting {
		for other, uris := range w.from {
			w.n -= len(uris)
			delete(w.from, other)
			break
		}
	}
	for _, uri := range w.from[to] {
		if uri == from {
			return
		}
	}
	w.from[to] = append(w.from[to], from)
	w.n++
}

// take forgets the links to a resource, and returns the URIs of the resources with them.
func (w *waiting) take(to string) []string {
	uris := w.from[to]
	w.n -= len(uris)
	delete(w.from, to)
	return uris
}
