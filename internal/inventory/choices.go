package inventory

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
)

// termsNow is the version of the terms in filters.
const termsNow = 2

// laterFields are the fields without terms in packs of version 0, with the first version that
// has them.
var laterFields = map[string]int{
	inventoryv1alpha1.KeyTypeField: 1, inventoryv1alpha1.SignatureAlgorithmField: 1, inventoryv1alpha1.DecisionField: 1, inventoryv1alpha1.DecisionUserField: 1,
	inventoryv1alpha1.UnderField: 1, inventoryv1alpha1.WeakerThanField: 1, inventoryv1alpha1.LongerThanField: 1, inventoryv1alpha1.IssuedSinceField: 1,
	inventoryv1alpha1.KeyFingerprintField: 2,
}

// choice is a set of terms; each record that a query matches has at least one of them.
type choice struct {
	terms []term
	// omitted are the terms to look for in packs with records that omit names.
	omitted []term
	// since is the first version of terms that has these.
	since int
}

// mayBeIn reports whether a pack may have records with one of the terms.
func (c choice) mayBeIn(p *packInfo) bool {
	if p.terms < c.since || slices.ContainsFunc(c.terms, p.filter.has) {
		return true
	}
	return len(c.omitted) > 0 && p.omits && (p.filter.has(anyName) || slices.ContainsFunc(c.omitted, p.filter.has))
}

// choices returns the choices that records of the query satisfy in addition to terms. now is
// the present time.
func (q *Query) choices(now time.Time) []choice {
	var choices []choice
	for _, r := range q.equal() {
		c := choiceOf(r, now)
		if c.since = laterFields[r.Field]; len(c.terms) > 0 {
			choices = append(choices, c)
		}
	}
	return choices
}

// choiceOf returns the terms of a requirement; none if records without any may meet it.
func choiceOf(r fields.Requirement, now time.Time) choice {
	switch r.Field {
	case inventoryv1alpha1.NameField:
		return choice{terms: []term{newTerm(r.Field, r.Value)}, omitted: []term{newTerm(omittedName, inventory.NameDigest(r.Value))}}
	case inventoryv1alpha1.UnderField:
		return choice{
			terms:   []term{newTerm(inventoryv1alpha1.NameField, r.Value), newTerm(r.Field, r.Value)},
			omitted: []term{newTerm(omittedName, inventory.NameDigest(r.Value)), newTerm(omittedName, inventory.NameDigest("."+r.Value))},
		}
	case inventoryv1alpha1.WeakerThanField:
		algorithm, _, _ := strings.Cut(r.Value, " ")
		return choice{terms: []term{newTerm(inventoryv1alpha1.KeyTypeField, algorithm)}}
	case inventoryv1alpha1.LongerThanField:
		return choice{terms: longerLives(inventory.Number(r.Value))}
	case inventoryv1alpha1.IssuedSinceField:
		return choice{terms: monthsSince(time.Unix(inventory.Number(r.Value), 0), now)}
	}
	if laterFields[r.Field] > 0 {
		return choice{terms: []term{newTerm(r.Field, r.Value)}}
	}
	return choice{}
}

// addConditionTerms adds the terms of a record that choiceOf returns for conditions.
func addConditionTerms(to map[term]struct{}, record *inventoryv1alpha1.IssuedCertificate) {
	to[monthTerm(record.CreationTimestamp.Time)] = struct{}{}
	to[lifeTerm(lifeClass(inventory.Life(record)))] = struct{}{}
	for _, domain := range inventory.Domains(record) {
		to[newTerm(inventoryv1alpha1.UnderField, domain)] = struct{}{}
	}
}

func monthTerm(t time.Time) term {
	return newTerm(inventoryv1alpha1.IssuedSinceField, t.UTC().Format("2006-01"))
}

// mostMonths is for how many months terms are looked for.
const mostMonths = 240

// monthsSince returns the terms of the months from a time to now, and of one more: clocks
// differ. There are none if they are too many.
func monthsSince(since, now time.Time) []term {
	var terms []term
	for year, month := since.UTC().Year(), since.UTC().Month(); ; month++ {
		first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
		terms = append(terms, monthTerm(first))
		if first.After(now) {
			return terms
		}
		if len(terms) > mostMonths {
			return nil
		}
	}
}

// lives are the lengths of life, in days, between which records are told apart by terms:
// those that people and rules of CAs choose.
var lives = []int64{1, 2, 3, 7, 10, 14, 30, 31, 45, 47, 60, 90, 91, 100, 180, 200, 365, 366, 398, 730, 825, 1095, 1825, 3650}

// lifeClass returns the index of the first of lives that is at least as long, or their
// number.
func lifeClass(seconds int64) int {
	class, _ := slices.BinarySearchFunc(lives, seconds, func(days, seconds int64) int { return int(days*secondsPerDay - seconds) })
	return class
}

func lifeTerm(class int) term {
	return newTerm(inventoryv1alpha1.LongerThanField, string(rune('a'+class)))
}

// longerLives returns the terms of the classes that have lives longer than a time.
func longerLives(seconds int64) []term {
	class := lifeClass(seconds)
	if class < len(lives) && lives[class]*secondsPerDay == seconds {
		class++ // nothing in its class is longer
	}
	var terms []term
	for ; class <= len(lives); class++ {
		terms = append(terms, lifeTerm(class))
	}
	return terms
}

// bounds are conditions on the times of a record, which its JSON contains in the same form
// in all records.
type bounds struct {
	since, before, longer int64
	isBounded             bool
}

func (q *Query) bounds() bounds {
	b := bounds{since: -1 << 62, before: 1 << 62, longer: -1}
	for _, r := range q.equal() {
		number := inventory.Number(r.Value)
		switch r.Field {
		case inventoryv1alpha1.IssuedSinceField:
			b.since = max(b.since, number)
		case inventoryv1alpha1.IssuedBeforeField:
			b.before = min(b.before, number)
		case inventoryv1alpha1.LongerThanField:
			b.longer = max(b.longer, number)
		default:
			continue
		}
		b.isBounded = true
	}
	return b
}

// exclude reports whether a record, as JSON, is out of the bounds. It takes a tenth of the
// time of decoding the record.
func (b bounds) exclude(data []byte) bool {
	if !b.isBounded {
		return false
	}
	// Labels come before the certificate, but after the time, and their keys can be anything.
	// No value can have these quotes.
	created, known := timeAt(data, bytes.Index(data, createdKey), createdKey)
	if known && (created < b.since || created >= b.before) {
		return true
	}
	begin, knowsBegin := timeAt(data, bytes.LastIndex(data, beginKey), beginKey)
	end, knowsEnd := timeAt(data, bytes.LastIndex(data, endKey), endKey)
	return knowsBegin && knowsEnd && end-begin <= b.longer
}

var createdKey, beginKey, endKey = []byte(`"creationTimestamp":"`), []byte(`"notBefore":"`), []byte(`"notAfter":"`)

// timeAt returns the time behind a key, in seconds since 1970.
func timeAt(data []byte, at int, key []byte) (seconds int64, known bool) {
	if at < 0 {
		return 0, false
	}
	text, _, _ := bytes.Cut(data[at+len(key):], []byte(`"`))
	t, err := time.Parse(time.RFC3339, string(text))
	return t.Unix(), err == nil
}
