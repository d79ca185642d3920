// Package caa decides whether CAA records (RFC 8659) let a CA issue.
package caa

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Tags of properties (RFC 8659 section 4).
const (
	TagIssue     = "issue"
	TagIssueWild = "issuewild"
)

// known are the tags that have a meaning. Only the two above can forbid a CA to issue.
var known = []string{TagIssue, TagIssueWild, "iodef", "contactemail", "contactphone", "issuemail", "issuevmc"}

// Record is a CAA record.
type Record struct {
	Critical bool
	// Tag is the property, Value its text.
	Tag, Value string
}

// String returns the record as in a zone file.
func (r Record) String() string {
	flag := 0
	if r.Critical {
		flag = 128
	}
	return fmt.Sprintf("%d %s %q", flag, r.Tag, r.Value)
}

// Wanted describes the certificate that a CA is to issue.
type Wanted struct {
	// Identities are the names that records use for the CA; empty if they are not known.
	Identities []string
	// Account is the URL of the account; empty if it is not known.
	Account string
	// Method is how the name is validated, such as http-01; empty if that is not
	// known.
	Method string
	// Wildcard is set for a wildcard name.
	Wildcard bool
}

// Verdict is the effect of records for a CA.
type Verdict int

// The verdicts.
const (
	// Unrestricted: no record restricts which CAs may issue.
	Unrestricted Verdict = iota
	// Allowed: a record allows the CA to issue.
	Allowed
	// Unsure: the answer depends on facts that are not known.
	Unsure
	// Forbidden: the CA may not issue.
	Forbidden
)

// Judge returns whether the records of a name let a CA issue, and why in words
// that follow "the CAA records of NAME".
func Judge(records []Record, w Wanted) (Verdict, string) {
	for _, r := range records {
		if tag := strings.ToLower(r.Tag); r.Critical && !slices.Contains(known, tag) {
			return Forbidden, fmt.Sprintf("have the critical property %q, which CAs do not know and must obey", tag)
		}
	}
	relevant := relevantFor(records, w.Wildcard)
	if len(relevant) == 0 {
		return Unrestricted, "do not restrict which CA may issue"
	}
	verdict, why := Forbidden, ""
	for _, r := range relevant {
		v, text := judgeOne(r, w)
		if v == Allowed {
			return v, text
		}
		if v < verdict || why == "" || verdict == v && strings.HasPrefix(why, other) {
			verdict, why = v, text
		}
	}
	if verdict == Forbidden && strings.HasPrefix(why, other) {
		why = other + names(relevant)
		if len(w.Identities) > 0 {
			why += ", and this CA is " + strings.Join(w.Identities, " or ")
		}
	}
	return verdict, why
}

const other = "allow only "

// names lists the CAs that records allow.
func names(records []Record) string {
	var all []string
	for _, r := range records {
		if issuer, _, err := parse(r.Value); err == nil && issuer != "" && !slices.Contains(all, issuer) {
			all = append(all, issuer)
		}
	}
	return cmp.Or(strings.Join(all, ", "), "no CA at all")
}

// relevantFor returns the records that decide: issuewild replaces issue for
// wildcards (RFC 8659 section 4.3).
func relevantFor(records []Record, wildcard bool) []Record {
	with := func(tag string) []Record {
		return slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return !strings.EqualFold(r.Tag, tag) })
	}
	if wild := with(TagIssueWild); wildcard && len(wild) > 0 {
		return wild
	}
	return with(TagIssue)
}

// judgeOne returns what one record means.
func judgeOne(r Record, w Wanted) (Verdict, string) {
	issuer, parameters, err := parse(r.Value)
	switch {
	case err != nil:
		return Forbidden, fmt.Sprintf("have %s, which cannot be read: %v", r, err)
	case issuer == "":
		return Forbidden, other
	case len(w.Identities) == 0:
		return Unsure, fmt.Sprintf("allow only %s, and the identity of the CA is not known", issuer)
	case !slices.ContainsFunc(w.Identities, func(id string) bool { return strings.EqualFold(id, issuer) }):
		return Forbidden, other + issuer
	}
	if v, why := judgeAccount(parameters["accounturi"], w.Account); v != Allowed {
		return v, fmt.Sprintf("allow %s, but %s", issuer, why)
	}
	if v, why := judgeMethod(parameters["validationmethods"], w.Method); v != Allowed {
		return v, fmt.Sprintf("allow %s, but %s", issuer, why)
	}
	return Allowed, "allow " + issuer
}

// judgeAccount obeys the parameter accounturi (RFC 8657 section 3).
func judgeAccount(uris []string, account string) (Verdict, string) {
	switch {
	case len(uris) == 0:
		return Allowed, ""
	case len(uris) > 1:
		return Forbidden, "the parameter accounturi is there more than once, which allows no account"
	case account == "":
		return Unsure, "only its account " + uris[0] + ", and the account of the issuer is not known"
	case uris[0] != account:
		return Forbidden, fmt.Sprintf("only its account %s, and the issuer's account is %s", uris[0], account)
	}
	return Allowed, ""
}

// judgeMethod obeys the parameter validationmethods (RFC 8657 section 4).
func judgeMethod(lists []string, method string) (Verdict, string) {
	switch {
	case len(lists) == 0:
		return Allowed, ""
	case len(lists) > 1:
		return Forbidden, "the parameter validationmethods is there more than once, which allows no method"
	case method == "":
		return Unsure, "only the methods " + lists[0]
	case !slices.Contains(strings.Split(lists[0], ","), method):
		return Forbidden, fmt.Sprintf("only the methods %s, and the solver uses %s", lists[0], method)
	}
	return Allowed, ""
}

// parse reads the value of an issue property (RFC 8659 section 4.2): the name of
// a CA, which can be missing, and parameters.
func parse(value string) (issuer string, parameters map[string][]string, err error) {
	parts := strings.Split(value, ";")
	issuer = strings.ToLower(strings.Trim(parts[0], " \t"))
	if strings.ContainsAny(issuer, " \t=") {
		return "", nil, fmt.Errorf("%q is not the name of a CA", issuer)
	}
	parameters = map[string][]string{}
	for _, part := range parts[1:] {
		part = strings.Trim(part, " \t")
		if part == "" {
			continue
		}
		tag, content, found := strings.Cut(part, "=")
		tag = strings.ToLower(strings.TrimRight(tag, " \t"))
		if !found || tag == "" {
			return "", nil, fmt.Errorf("%q is not a parameter", part)
		}
		parameters[tag] = append(parameters[tag], strings.TrimLeft(content, " \t"))
	}
	return issuer, parameters, nil
}

// Advised returns the record that the owner of a name can set to allow exactly the wanted
// certificate (RFC 8657). It is the zero Record if the CA's identity is not known.
func Advised(w Wanted) Record {
	if len(w.Identities) == 0 {
		return Record{}
	}
	r := Record{Tag: TagIssue, Value: w.Identities[0]}
	if w.Wildcard {
		r.Tag = TagIssueWild
	}
	if w.Account != "" {
		r.Value += "; accounturi=" + w.Account
	}
	if w.Method != "" {
		r.Value += "; validationmethods=" + w.Method
	}
	return r
}
