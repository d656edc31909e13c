package repository_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/repository"
)

// The schema of responses (OAI-PMH 2.0, 3.2.1): child elements in order, and
// types of text.
var (
	oneRecord = []part{{"record", 1, 1}}
	oaiSchema = map[string][]part{
		"OAI-PMH":             {{"responseDate", 1, 1}, {"request", 1, 1}, {"*", 1, 1}},
		"Identify":            {{"repositoryName", 1, 1}, {"baseURL", 1, 1}, {"protocolVersion", 1, 1}, {"adminEmail", 1, many}, {"earliestDatestamp", 1, 1}, {"deletedRecord", 1, 1}, {"granularity", 1, 1}, {"compression", 0, many}},
		"ListMetadataFormats": {{"metadataFormat", 1, many}},
		"ListSets":            {{"set", 1, many}, {"resumptionToken", 0, 1}},
		"GetRecord":           oneRecord,
		"ListRecords":         {{"record", 1, many}, {"resumptionToken", 0, 1}},
		"ListIdentifiers":     {{"header", 1, many}, {"resumptionToken", 0, 1}},
		"metadataFormat":      {{"metadataPrefix", 1, 1}, {"schema", 1, 1}, {"metadataNamespace", 1, 1}},
		"set":                 {{"setSpec", 1, 1}, {"setName", 1, 1}},
		"record":              {{"header", 1, 1}, {"metadata", 0, 1}},
		"header":              {{"identifier", 1, 1}, {"datestamp", 1, 1}, {"setSpec", 0, many}},
	}
	oaiText = map[string]func(string) bool{
		"responseDate": isTime, "datestamp": isTime, "earliestDatestamp": isTime, "expirationDate": isTime,
		"from": isDatestamp, "until": isDatestamp,
		"request": isURI, "baseURL": isURI, "schema": isURI, "metadataNamespace": isURI, "identifier": isURI,
		"protocolVersion": matches(`2\.0`), "adminEmail": matches(`\S+@(\S+\.)+\S+`), "deletedRecord": matches(`no|persistent|transient`),
		"granularity": matches(`YYYY-MM-DD(Thh:mm:ssZ)?`), "metadataPrefix": matches(`[A-Za-z0-9\-_.!~*'()]+`),
		"setSpec": matches(`[A-Za-z0-9\-_.!~*'()]+(:[A-Za-z0-9\-_.!~*'()]+)*`), "set": matches(`[A-Za-z0-9\-_.!~*'():]+`),
		"status": matches(`deleted`), "completeListSize": matches(`[1-9][0-9]*`), "cursor": matches(`[0-9]+`),
		"verb": matches(`Identify|ListMetadataFormats|ListSets|GetRecord|ListIdentifiers|ListRecords`),
		"code": matches(`cannotDisseminateFormat|idDoesNotExist|badArgument|badVerb|noMetadataFormats|noRecordsMatch|badResumptionToken|noSetHierarchy`),
	}
	oaiAttributes = map[string][]string{
		"request": {"verb", "identifier", "metadataPrefix", "from", "until", "set", "resumptionToken"},
		"header":  {"status"}, "resumptionToken": {"expirationDate", "completeListSize", "cursor"}, "error": {"code"},
	}
)

const (
	many       = 1 << 30
	oaiSpace   = "http://www.openarchives.org/OAI/2.0/"
	xsiSpace   = "http://www.w3.org/2001/XMLSchema-instance"
	dcSpace    = "http://www.openarchives.org/OAI/2.0/oai_dc/"
	dcElements = "http://purl.org/dc/elements/1.1/"
)

// A part is a child element with its cardinality.
type part struct {
	name     string
	min, max int
}

func matches(pattern string) func(string) bool {
	return regexp.MustCompile(`^(` + pattern + `)$`).MatchString
}

func isTime(s string) bool {
	t, err := time.Parse("2006-01-02T15:04:05Z", s)
	return err == nil && t.Year() > 0 && len(s) == 20
}

func isDatestamp(s string) bool {
	t, err := time.Parse(time.DateOnly, s)
	return err == nil && t.Year() > 0 || isTime(s)
}

func isURI(s string) bool {
	_, err := url.Parse(s)
	return err == nil && s == strings.TrimSpace(s)
}

// checkSchema reports where a response violates the schemas of OAI-PMH and of
// oai_dc.
func checkSchema(body string) error {
	d := xml.NewDecoder(strings.NewReader(body))
	for {
		token, err := d.Token()
		if err != nil {
			return err
		}
		if e, ok := token.(xml.StartElement); ok {
			if e.Name != (xml.Name{Space: oaiSpace, Local: "OAI-PMH"}) {
				return fmt.Errorf("the root is %v", e.Name)
			}
			if err := checkElement(d, e); err != nil {
				return err
			}
			behind, err := d.Token()
			if text, ok := behind.(xml.CharData); ok && strings.TrimSpace(string(text)) == "" {
				behind, err = d.Token()
			}
			if err != io.EOF {
				return fmt.Errorf("behind the root: %v, %v", behind, err)
			}
			return nil
		}
	}
}

func checkElement(d *xml.Decoder, e xml.StartElement) error {
	name := e.Name.Local
	for _, a := range e.Attr {
		switch {
		case a.Name.Space == "xmlns" || a.Name.Local == "xmlns" || a.Name.Space == xsiSpace:
		case !slices.Contains(oaiAttributes[name], a.Name.Local):
			return fmt.Errorf("<%s> has the attribute %s", name, a.Name.Local)
		case oaiText[a.Name.Local] != nil && !oaiText[a.Name.Local](a.Value):
			return fmt.Errorf("<%s %s=%q>", name, a.Name.Local, a.Value)
		}
	}
	var children []string
	text := ""
	for {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.CharData:
			text += string(token)
		case xml.StartElement:
			children = append(children, token.Name.Local)
			if name == "metadata" {
				if err := checkMetadata(d, token); err != nil {
					return err
				}
			} else if token.Name.Space != oaiSpace {
				return fmt.Errorf("<%s> has a <%s> of %s", name, token.Name.Local, token.Name.Space)
			} else if err := checkElement(d, token); err != nil {
				return err
			}
		case xml.EndElement:
			return checkContent(name, children, text)
		}
	}
}

func checkContent(name string, children []string, text string) error {
	if name == "metadata" {
		if len(children) != 1 || strings.TrimSpace(text) != "" {
			return fmt.Errorf("<metadata> has %q, and the text %q", children, text)
		}
		return nil
	}
	parts, ok := oaiSchema[name]
	if name == "set" && len(children) == 0 {
		ok = false
	}
	if !ok {
		if len(children) > 0 || name != "set" && oaiText[name] != nil && !oaiText[name](text) {
			return fmt.Errorf("<%s> has %q, and the text %q", name, children, text)
		}
		return nil
	}
	if strings.TrimSpace(text) != "" {
		return fmt.Errorf("<%s> has the text %q", name, text)
	}
	rest := children
	for _, p := range parts {
		n := 0
		for len(rest) > 0 && (rest[0] == p.name || p.name == "*") && n < p.max {
			rest, n = rest[1:], n+1
		}
		if n < p.min {
			return fmt.Errorf("<%s> has %q, not enough of %s", name, children, p.name)
		}
	}
	if len(rest) > 0 && !(name == "OAI-PMH" && !slices.ContainsFunc(children[2:], func(s string) bool { return s != "error" })) {
		return fmt.Errorf("<%s> has %q, which is too much", name, children)
	}
	return nil
}

// checkMetadata checks the content of <metadata>: it must have a namespace of
// its own, and oai_dc must conform to its schema.
func checkMetadata(d *xml.Decoder, e xml.StartElement) error {
	if e.Name.Space == "" || e.Name.Space == oaiSpace {
		return fmt.Errorf("metadata in the namespace %q", e.Name.Space)
	}
	located := false
	for _, a := range e.Attr {
		located = located || a.Name.Space == xsiSpace && a.Name.Local == "schemaLocation" && strings.HasPrefix(a.Value, e.Name.Space+" ")
	}
	if e.Name.Space != dcSpace {
		return d.Skip()
	}
	if e.Name.Local != "dc" || !located {
		return fmt.Errorf("metadata of oai_dc: %v", e)
	}
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			const all = " title creator subject description publisher contributor date type format identifier source language relation coverage rights "
			if depth++; depth > 1 || token.Name.Space != dcElements || !strings.Contains(all, " "+token.Name.Local+" ") {
				return fmt.Errorf("oai_dc has %v", token.Name)
			}
		case xml.EndElement:
			if depth--; depth < 0 {
				return nil
			}
		}
	}
}

// A list whose last part would be empty, because the remaining items have
// changed meanwhile and are beyond it, repeats a record: the schema does not
// allow an empty list.
func TestEmptied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *repository.Options) { o.Records = 2 })
	for i := range 3 {
		w.put(fmt.Sprint("https://example.org/", i), "", "first")
	}
	first := w.ask("verb=ListRecords&metadataPrefix=oai_dc")
	wantIDs(t, []*response{first}, "https://example.org/0", "https://example.org/1")
	w.pass(2 * time.Hour)
	w.put("https://example.org/2", "", "second")
	last := w.ask("verb=ListRecords&resumptionToken=" + first.Token.Value)
	wantIDs(t, []*response{last}, "https://example.org/0")
	if last.Token == nil || last.Token.Value != "" {
		t.Errorf("the last part has the token %+v", last.Token)
	}
	wantIDs(t, w.all("verb=ListRecords&metadataPrefix=oai_dc&from="+first.ResponseDate), "https://example.org/0", "https://example.org/1", "https://example.org/2")
}
