package repository

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"lockstep/internal/hangup"
	"lockstep/oaipmh"
)

// maxArguments is the maximum size of the arguments of a request: it limits the
// memory that an endless body uses.
const maxArguments = 64 << 10

// A rule lists the arguments of a verb (OAI-PMH 2.0, 4).
type rule struct {
	required, optional []string
	exclusive          string // replaces all others
}

var rules = map[oaipmh.Verb]rule{
	oaipmh.VerbIdentify:            {},
	oaipmh.VerbListMetadataFormats: {optional: []string{"identifier"}},
	oaipmh.VerbListSets:            {exclusive: "resumptionToken"},
	oaipmh.VerbGetRecord:           {required: []string{"identifier", "metadataPrefix"}},
	oaipmh.VerbListIdentifiers:     {required: []string{"metadataPrefix"}, optional: []string{"from", "until", "set"}, exclusive: "resumptionToken"},
	oaipmh.VerbListRecords:         {required: []string{"metadataPrefix"}, optional: []string{"from", "until", "set"}, exclusive: "resumptionToken"},
}

// prefixForm matches a valid metadataPrefix (OAI-PMH 2.0, 3.4).
var prefixForm = regexp.MustCompile(`^[A-Za-z0-9_.!~*'()-]+$`)

// parseRequest parses a request, or returns the error to answer.
func parseRequest(w http.ResponseWriter, r *http.Request) (oaipmh.Request, *oaipmh.Error) {
	args, err := arguments(w, r)
	verbs := args["verb"]
	switch {
	case err != nil && len(verbs) == 0:
		return oaipmh.Request{}, badArgument("%s", err)
	case len(verbs) == 0:
		return oaipmh.Request{}, &oaipmh.Error{Code: oaipmh.CodeBadVerb, Message: "the argument verb is missing: this is an OAI-PMH repository"}
	case len(verbs) > 1:
		return oaipmh.Request{}, &oaipmh.Error{Code: oaipmh.CodeBadVerb, Message: "the argument verb is repeated"}
	}
	q := oaipmh.Request{Verb: oaipmh.Verb(verbs[0])}
	rule, ok := rules[q.Verb]
	if !ok {
		return oaipmh.Request{}, &oaipmh.Error{Code: oaipmh.CodeBadVerb, Message: fmt.Sprintf("there is no verb %.40q", verbs[0])}
	}
	if err != nil {
		return q, badArgument("%s", err)
	}
	delete(args, "verb")
	if e := rule.check(args); e != nil {
		return q, e
	}
	get := func(name string) string {
		if v := args[name]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	q.Identifier, q.MetadataPrefix, q.From, q.Until = get("identifier"), get("metadataPrefix"), get("from"), get("until")
	q.Set, q.Token = get("set"), get("resumptionToken")
	return q, checkValues(&q)
}

// arguments returns the arguments of a request: those of the URL's query, and
// for a POST those in its body.
func arguments(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	args, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return args, errors.New("the part after the question mark is not a list of arguments")
	}
	if r.Method != http.MethodPost {
		return args, nil
	}
	if t, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); t != "application/x-www-form-urlencoded" {
		return args, errors.New("a POST must be of the type application/x-www-form-urlencoded") // OAI-PMH 2.0, 3.1.1.2
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxArguments)
	if err := r.ParseForm(); hangup.IsBody(r.Context(), err) {
		panic(http.ErrAbortHandler) // the client has disconnected: half a body is not a wrong argument
	} else if err != nil {
		return args, errors.New("the body is not a list of arguments, or too long")
	}
	for name, values := range r.PostForm {
		args[name] = append(args[name], values...)
	}
	return args, nil
}

// check refuses arguments that the verb does not allow, or not in this
// combination.
func (l *rule) check(args url.Values) *oaipmh.Error {
	for name, values := range args {
		switch {
		case !slices.Contains(l.required, name) && !slices.Contains(l.optional, name) && (name != l.exclusive || name == ""):
			return badArgument("the verb takes no argument %.40q", name)
		case len(values) > 1:
			return badArgument("the argument %s is repeated", name)
		case values[0] == "":
			return badArgument("the argument %s has no value", name)
		case !utf8.ValidString(values[0]) || strings.IndexByte(values[0], 0) >= 0:
			return badArgument("the argument %s is no text in UTF-8", name)
		}
	}
	if l.exclusive != "" && len(args[l.exclusive]) > 0 {
		if len(args) > 1 {
			return badArgument("the argument %s takes no other beside it", l.exclusive)
		}
		return nil
	}
	for _, name := range l.required {
		if len(args[name]) == 0 {
			return badArgument("the argument %s is missing", name)
		}
	}
	return nil
}

// checkValues refuses invalid values of arguments.
func checkValues(q *oaipmh.Request) *oaipmh.Error {
	if q.MetadataPrefix != "" && !prefixForm.MatchString(q.MetadataPrefix) {
		return badArgument("%.40q is no metadataPrefix", q.MetadataPrefix)
	}
	for spec := range strings.SplitSeq(q.Set, ":") {
		if q.Set != "" && !setSpec.MatchString(spec) {
			return badArgument("%.40q is no setSpec", q.Set)
		}
	}
	return nil
}

func badArgument(format string, args ...any) *oaipmh.Error {
	return &oaipmh.Error{Code: oaipmh.CodeBadArgument, Message: fmt.Sprintf(format, args...)}
}
