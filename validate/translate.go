package validate

import (
	"errors"
	"strings"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
)

// A Reader's warning is named after what the Reader did; a rule is named after
// what a Source should do. This file maps one to the other.

// renamed maps warnings that always mean the same. An empty name marks the
// consequence of another reported problem.
var renamed = map[string]string{
	"RS-VER-01": "RS-GEN-01", "RS-VER-21": "RS-GEN-01",
	"RS-VER-02": "RS-GEN-04", "RS-VER-18": "RS-GEN-04",
	"RS-VER-05": "", "RS-VER-10": "", "RS-VER-11": "",
	"RS-VER-13": "RS-XML-07", "RS-VER-16": "RS-CL-08",
	"RS-XML-05": "RS-XML-04", "RS-AMB-24": "RS-XML-02", "RS-AMB-01": "RS-SD-06",
	"RS-DT-02": "RS-DT-01", "RS-DT-05": "RS-DT-01", "RS-LEN-02": "RS-LEN-01", "RS-ZIP-06": "RS-PATH-01",
}

// softer are the warnings of a Reader that are not errors. Where the text of the
// standard contradicts its own examples the level is Warning: examples 1 to 5
// and 8 have no link up (RS-AMB-03), and several have digests of a wrong length.
var softer = map[string]finding.Level{
	"RS-DT-01": finding.Warning, "RS-ENC-01": finding.Warning, "RS-VER-16": finding.Warning, "RS-AMB-03": finding.Warning, "RS-AMB-01": finding.Warning, "RS-HASH-04": finding.Warning,
	"RS-GEN-06": finding.Advice, "RS-XML-12": finding.Advice, "RS-HASH-02": finding.Advice, "RS-CHL-08": finding.Advice,
}

// lacksUp, lacksTime, disorder and lacksChange name the rules for required
// parts of a document of a kind.
var (
	lacksUp = map[finding.Kinds]string{
		finding.KindCapabilityList: "RS-CL-04", finding.KindResourceList: "RS-RL-02", finding.KindResourceListIndex: "RS-RLI-01",
		finding.KindResourceDump: "RS-RD-01", finding.KindResourceDumpIndex: "RS-RDI-01", finding.KindResourceDumpManifest: "RS-RDM-01",
		finding.KindChangeList: "RS-CHL-01", finding.KindChangeListIndex: "RS-CHI-01", finding.KindChangeDump: "RS-CD-01",
		finding.KindChangeDumpIndex: "RS-CDI-01", finding.KindChangeDumpManifest: "RS-CDM-01",
		finding.KindArchive: "RA-DOC-03", finding.KindArchiveIndex: "RA-DOC-03", finding.KindNotification: "RN-PL-03",
	}
	lacksTime = map[finding.Kinds]string{
		finding.KindResourceList: "RS-RL-01", finding.KindResourceListIndex: "RS-RLI-01",
		finding.KindResourceDump: "RS-RD-01", finding.KindResourceDumpIndex: "RS-RDI-01", finding.KindResourceDumpManifest: "RS-RDM-01",
		finding.KindChangeList: "RS-CHL-01", finding.KindChangeListIndex: "RS-CHI-01", finding.KindChangeDump: "RS-CD-01",
		finding.KindChangeDumpIndex: "RS-CDI-01", finding.KindChangeDumpManifest: "RS-CDM-01", finding.KindNotification: "RN-PL-02",
	}
	disorder    = map[finding.Kinds]string{finding.KindChangeList: "RS-CHL-03", finding.KindChangeDumpManifest: "RS-CDM-03", finding.KindNotification: "RN-PL-04"}
	lacksChange = map[finding.Kinds]string{finding.KindChangeList: "RS-CHL-04", finding.KindChangeDumpManifest: "RS-CDM-04", finding.KindNotification: "RN-PL-05"}
)

// translate returns the rule, and its level, for a warning about a document of
// kind k; no rule if another warning reports the same problem.
func translate(w resourcesync.Warning, k finding.Kinds) (rule string, level finding.Level) {
	if level = softer[w.Rule]; level == "" {
		level = finding.Error
	}
	if rule, ok := renamed[w.Rule]; ok {
		return rule, level
	}
	about := func(word string) bool { return strings.Contains(w.Message, word) }
	switch w.Rule {
	case "RS-XML-01":
		if about("declaration") {
			level = finding.Warning // XML 1.0, 2.8
		}
	case "RS-XML-03":
		if level = finding.Advice; about("loc, lastmod") || about("text between") {
			level = finding.Warning
		}
	case "RS-XML-07":
		if about("of Sitemaps") || about("element") { // it may belong to a community's extension
			level = finding.Warning
		}
	case "RS-AMB-03", "RS-VER-03", "RS-VER-04":
		if k == finding.KindNotification { // its link up is optional
			return lacksUp[k], finding.Advice
		}
		return lacksUp[k], finding.Warning
	case "RS-MD-13", "RS-MD-14", "RS-VER-08", "RS-VER-09":
		return lacksTime[k], level
	case "RS-VER-07":
		if about("of a part") {
			return "RS-MD-08", level
		}
		return lacksTime[k], level
	case "RS-VER-12":
		if about("lastmod") { // the time of the resource, which may be much older than the change
			return "", level
		}
		return disorder[k], level
	case "RS-EM-02":
		if about("does not say what changed") && lacksChange[k] != "" {
			return lacksChange[k], level
		}
	case "RS-VER-14":
		if about("size") {
			return "RS-LEN-01", level
		}
		return "RS-HASH-01", level
	case "RS-VER-15":
		if about("lastmod") || about("expires") {
			return "RS-EM-02", level
		}
		return "RS-GEN-04", level
	case "RS-HASH-04":
		if about("no algorithm") || about("too many") {
			return "RS-HASH-01", finding.Error
		}
		return "RS-HASH-02", level
	case "RS-MD-12":
		item, _, _ := strings.Cut(w.Message, " ")
		if about("in an entry") {
			rule = misplacedInEntry(item, k)
		} else {
			rule = misplacedAtRoot(item, k)
		}
		switch {
		case rule == "RS-MD-12", strings.HasPrefix(rule, "RA-"):
			level = finding.Advice
		case rule == "RS-EM-03":
			level = finding.Warning
		}
		return rule, level
	case "RS-LN-03":
		if about("several") || about("spelt") {
			level = finding.Warning
		}
	case "RS-LN-04":
		if rule = misplacedLink(w.Message, k); strings.HasPrefix(rule, "RS-LN") || strings.HasPrefix(rule, "RA-") {
			level = finding.Advice
		}
		return rule, level
	}
	return w.Rule, level
}

func isTime(item string) bool {
	switch item {
	case "at", "completed", "from", "until":
		return true
	}
	return false
}

// misplacedAtRoot returns the rule that an attribute of the root's rs:md
// violates.
func misplacedAtRoot(item string, k finding.Kinds) string {
	switch {
	case !isTime(item):
		return "RS-MD-12"
	case k&(finding.KindDescription|finding.KindDescriptionIndex) != 0:
		return "RS-SD-02"
	case k == finding.KindCapabilityList:
		return "RS-CL-09"
	case k&finding.Archives != 0:
		return "RA-DOC-02"
	case k&finding.Intervals != 0:
		return "RS-MD-04"
	}
	return "RS-MD-08"
}

// misplacedInEntry returns the rule that an attribute of an entry's rs:md, or a
// child of the entry, violates: that of the document, if it has one.
func misplacedInEntry(item string, k finding.Kinds) string {
	word := item == "change" || item == "datetime" || item == "path" || item == "capability"
	switch {
	case k == finding.KindResourceList && (item == "at" || item == "completed"):
		return "RS-RL-06"
	case k == finding.KindResourceList && (word || isTime(item)):
		return "RS-RL-07"
	case k == finding.KindResourceDump && (word || item == "from" || item == "until"):
		return "RS-RD-08"
	case k == finding.KindResourceDumpManifest && (item == "change" || item == "datetime" || isTime(item)):
		return "RS-RDM-04"
	case k == finding.KindChangeList && (item == "path" || item == "capability" || isTime(item)):
		return "RS-CHL-09"
	case k&finding.Archives != 0:
		return "RA-DOC-08"
	case k&(finding.KindDescription|finding.KindDescriptionIndex) != 0 && isTime(item):
		return "RS-SD-02"
	case k == finding.KindCapabilityList && isTime(item):
		return "RS-CL-09"
	case k&finding.Intervals != 0 && (item == "at" || item == "completed"):
		return "RS-MD-04"
	}
	switch item {
	case "capability":
		return "RS-EM-01"
	case "change":
		return "RS-EM-02"
	case "datetime":
		return "RS-EM-03"
	case "path":
		return "RS-PATH-01"
	}
	return "RS-MD-12"
}

// misplacedLink returns the rule that a misplaced link violates.
func misplacedLink(message string, k finding.Kinds) string {
	switch {
	case strings.Contains(message, "patch link") && k == finding.KindResourceList:
		return "RS-RL-07"
	case strings.Contains(message, "patch link") && k == finding.KindResourceDumpManifest:
		return "RS-RDM-03"
	case strings.Contains(message, "patch link"):
		return "RS-REL-30"
	case strings.Contains(message, "link archives"):
		return "RA-ADV-06"
	case k&finding.Archives != 0 && strings.Contains(message, "entry"):
		return "RA-DOC-08"
	}
	return "RS-LN-04"
}

// ruleOfError returns the rule that a document violates if reading it failed
// with err.
func ruleOfError(err error) string {
	switch text := err.Error(); {
	case errors.Is(err, resourcesync.ErrHTML), errors.Is(err, resourcesync.ErrNotDocument):
		return "RS-GEN-04"
	case errors.Is(err, resourcesync.ErrLimit) && strings.Contains(text, "a document of more than"):
		return "RS-IDX-01"
	case errors.Is(err, resourcesync.ErrLimit), strings.Contains(text, "document type"):
		return "RS-XML-13"
	}
	return "RS-XML-01"
}
