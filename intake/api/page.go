package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"lockstep/intake/internal/entry"
	"lockstep/internal/negotiate"
)

//go:embed openapi.json
var openAPI []byte

//go:embed page.html
var apiPageHTML string

//go:embed page.css
var apiPageCSS string

var apiPageTemplate = template.Must(template.New("api").Parse(apiPageHTML))

// apiPagePolicy is a Content-Security-Policy that allows only the page's own style.
var apiPagePolicy = func() string {
	sum := sha256.Sum256([]byte(apiPageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// description serves openapi.json.
func (a *API) description(_ *Set, w http.ResponseWriter, r *http.Request) (*reply, error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	negotiate.ServeContent(w, r, time.Time{}, bytes.NewReader(openAPI))
	return nil, nil
}

// page serves the contents of openapi.json as an HTML page.
func (a *API) page(_ *Set, w http.ResponseWriter, r *http.Request) (*reply, error) {
	p, err := describeAPI(a.routes)
	if err != nil {
		return nil, err
	}
	p.Tokens, p.Path = a.tokens != nil, a.o.Path
	var b bytes.Buffer
	if err := apiPageTemplate.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("render the page of the API: %w", err)
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", apiPagePolicy)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache")
	negotiate.ServeContent(w, r, time.Time{}, bytes.NewReader(b.Bytes()))
	return nil, nil
}

// A page is the data of page.html.
type page struct {
	Title, Summary string
	Description    []string // paragraphs
	Path           string
	Tokens         bool // a token is needed
	Operations     []operation
	Objects        []object
	Responses      []response // possible errors
	Style          template.CSS
}

// An operation describes one operation of the API.
type operation struct {
	ID, Method, Path     string
	Summary, Description string
	Parameters           []field
	Bodies               []requestBody
	Responses            []response
}

// A requestBody describes the body of a request or of a response.
type requestBody struct{ Type, Example string }

// A response describes one response of an operation.
type response struct {
	Status, Description string
	Bodies              []requestBody
}

// An object describes a JSON object in a body.
type object struct {
	Name, Description string
	Fields            []field
}

// A field describes a field or a parameter.
type field struct {
	Name, In, Description string
	Required              bool
}

// describeAPI parses openapi.json.
func describeAPI(routes []route) (*page, error) {
	var doc openAPIDocument
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		return nil, fmt.Errorf("read openapi.json: %w", err) // unreachable: a test reads it
	}
	p := &page{Title: doc.Info.Title, Summary: doc.Info.Summary, Description: strings.Split(doc.Info.Description, "\n\n"), Style: template.CSS(apiPageCSS)}
	for i := range routes { // in the order of routes, since JSON objects have no order
		r := &routes[i]
		item := doc.Paths["/"+r.path]
		op := item.operation(r.method)
		if op == nil || r.about {
			continue
		}
		o := operation{ID: op.OperationID, Method: r.method, Path: r.path, Summary: op.Summary, Description: op.Description}
		for _, param := range append(slices.Clone(item.Parameters), op.Parameters...) {
			o.Parameters = append(o.Parameters, doc.Components.Parameters[param.name()])
		}
		o.Bodies = bodies(op.RequestBody.Content)
		for _, status := range sortedKeys(op.Responses) {
			if resp := op.Responses[status]; resp.Ref == "" {
				o.Responses = append(o.Responses, response{status, resp.Description, bodies(resp.Content)})
			} else {
				o.Responses = append(o.Responses, response{Status: status})
				p.fails(status, doc.Components.Responses[resp.name()].Description)
			}
		}
		p.Operations = append(p.Operations, o)
	}
	for _, name := range []string{"Entry", "Link", "Problem"} {
		p.Objects = append(p.Objects, doc.object(name))
	}
	return p, nil
}

// fails adds the description of a status, once.
func (p *page) fails(status, description string) {
	i, found := slices.BinarySearchFunc(p.Responses, status, func(r response, s string) int { return strings.Compare(r.Status, s) })
	if !found {
		p.Responses = slices.Insert(p.Responses, i, response{Status: status, Description: description})
	}
}

// An openAPIDocument contains the parts of an OpenAPI document that the page shows.
type openAPIDocument struct {
	Info struct {
		Title, Summary, Description string
	}
	Paths      map[string]openAPIPath
	Components struct {
		Parameters map[string]field
		Responses  map[string]openAPIResponse
		Schemas    map[string]openAPISchema
	}
}

type openAPIPath struct {
	Parameters             []openAPIRef
	Get, Put, Post, Delete *openAPIOperation
}

// operation returns the operation for a method, or nil.
func (p *openAPIPath) operation(method string) *openAPIOperation {
	return map[string]*openAPIOperation{"GET": p.Get, "PUT": p.Put, "POST": p.Post, "DELETE": p.Delete}[method]
}

type openAPIOperation struct {
	OperationID, Summary, Description string
	Parameters                        []openAPIRef
	RequestBody                       struct{ Content map[string]openAPIMedia }
	Responses                         map[string]openAPIResponse
}

type openAPIRef struct {
	Ref string `json:"$ref"`
}

// name returns the name of the referenced object.
func (r openAPIRef) name() string { return r.Ref[strings.LastIndexByte(r.Ref, '/')+1:] }

type openAPIResponse struct {
	openAPIRef
	Description string
	Content     map[string]openAPIMedia
}

type openAPIMedia struct {
	Example json.RawMessage
}

type openAPISchema struct {
	Description string
	Required    []string
	Properties  map[string]struct{ Description string }
}

// object returns a schema as the page shows it, with the fields in the order in
// which responses contain them.
func (d *openAPIDocument) object(name string) object {
	s := d.Components.Schemas[name]
	o := object{Name: name, Description: s.Description}
	order := map[string]string{"Entry": entry.Fields, "Link": entry.LinkFields}[name]
	names := strings.Split(order, ", ")
	if order == "" {
		names = sortedKeys(s.Properties)
	}
	for _, n := range names {
		o.Fields = append(o.Fields, field{Name: n, Description: s.Properties[n].Description, Required: slices.Contains(s.Required, n)})
	}
	return o
}

// bodies returns the bodies of a request or response. Types with the same example
// are combined.
func bodies(content map[string]openAPIMedia) []requestBody {
	var all []requestBody
	for _, typ := range sortedKeys(content) {
		example := content[typ].Example
		var text string
		if len(example) > 0 && example[0] == '"' {
			_ = json.Unmarshal(example, &text) // its first byte shows that it is a string
		} else if len(example) > 0 {
			var b bytes.Buffer
			_ = json.Indent(&b, example, "", "  ") // it comes from a valid JSON document
			text = b.String()
		}
		if i := slices.IndexFunc(all, func(b requestBody) bool { return text != "" && b.Example == text }); i >= 0 {
			all[i].Type += ", " + typ
			continue
		}
		all = append(all, requestBody{typ, text})
	}
	return all
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
