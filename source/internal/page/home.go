package page

import (
	"cmp"
	_ "embed"
	"strings"
	"time"

	"lockstep/internal/webpage"
)

//go:embed home.html
var homeHTML string

var homeView = webpage.Parse(homeHTML, setHTML)

// A home is what home.html shows.
type home struct {
	Description string // URI of the Source Description
	Explore     string
	Facts       []webpage.Fact
	Commands    []command
	Sets        []setView
	More        int // sets that are not shown
}

// A command is what people copy.
type command struct{ Title, Text string }

// site is the layout of the home page, which loads nothing: a web server in front may serve
// this one address only.
func (p *Pages) site() *webpage.Site {
	return &webpage.Site{Name: p.title(), Home: p.Home, Footer: "Published with Lockstep, by ResourceSync.", Inline: true}
}

// RenderHome returns the home page, about all sets.
func (p *Pages) RenderHome() ([]byte, error) {
	shown := p.Sets[:min(len(p.Sets), maxSets)]
	h := home{Description: p.Description, Explore: p.Explore, Facts: p.facts(), Commands: p.commands(shown), More: len(p.Sets) - len(shown)}
	w := webpage.Page{Title: p.title(), Lead: p.Summary}
	for i := range shown {
		set := shown[i].view(p.Published(shown[i].Name), "")
		h.Sets = append(h.Sets, set)
		if set.Covers {
			w.Links = append(w.Links, webpage.HeadLink{Rel: "resourcesync", Href: set.CapabilityList})
		}
		if set.Feed != "" {
			w.Links = append(w.Links, webpage.HeadLink{Rel: "alternate", Href: set.Feed, Feed: true, Title: cmp.Or(set.Title, set.Name)})
		}
	}
	w.Data = h
	return homeView.Render(p.site(), w)
}

// facts are how much there is, and when it changed: of the sets that the page is for.
func (p *Pages) facts() []webpage.Fact {
	var resources int64
	var changed time.Time
	known := 0
	for i := range p.Sets {
		if of := p.Published(p.Sets[i].Name); of.Known {
			known++
			if resources += of.Count; of.Last.After(changed) {
				changed = of.Last
			}
		}
	}
	if known == 0 {
		return nil
	}
	facts := []webpage.Fact{{Name: "Resources", Value: webpage.Count(resources)}}
	if len(p.Sets) > 1 {
		facts = append(facts, webpage.Fact{Name: "Sets", Value: webpage.Count(len(p.Sets))})
	}
	if !changed.IsZero() {
		facts = append(facts, webpage.Fact{Name: "Last change", Value: webpage.Stamp(changed)})
	}
	return facts
}

// maxFeeds is how many feeds are offered to be copied.
const maxFeeds = 5

// commands are what people copy in order to use the Source: what applies to some of the sets.
func (p *Pages) commands(sets []Set) []command {
	address := quoted(p.Home)
	all := []command{{"Copy everything once", "lockstep sync " + address + " DIRECTORY"}, {"Copy everything, and stay in step", "lockstep follow " + address + " DIRECTORY"}}
	if len(sets) > 1 {
		all = append(all, command{"Copy one set", "lockstep follow " + address + " DIRECTORY --set " + quoted(sets[0].Name)})
	}
	var feeds []command
	oai := ""
	for i := range sets {
		if set := &sets[i]; set.Feed != "" {
			title := "For feed readers"
			if len(sets) > 1 {
				title += ": " + cmp.Or(set.Title, set.Name)
			}
			feeds = append(feeds, command{title, set.Feed})
		}
		oai = cmp.Or(oai, sets[i].OAI)
	}
	if len(feeds) <= maxFeeds { // each is also among the documents of its set
		all = append(all, feeds...)
	}
	if oai != "" {
		all = append(all, command{"For harvesters (OAI-PMH)", oai})
	}
	return all
}

// quoted returns a word as a shell takes it.
func quoted(word string) string {
	if word != "" && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:%@+,=") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
