package inventory

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/pki"
)

// Kind is a kind of records.
type Kind int

// The kinds.
const (
	// Certificates are the records of certificates.
	Certificates Kind = iota
	// Decisions are the records that name the user who approved or denied a request.
	Decisions
	// Denials are the records of denied requests.
	Denials
)

// has reports whether a record is one of the kind.
func (k Kind) has(record *inventoryv1alpha1.IssuedCertificate) bool {
	switch k {
	case Decisions:
		return inventory.DecisionOf(record) != ""
	case Denials:
		return record.Denial != nil
	}
	return record.Denial == nil
}

// Query is what records are looked for by.
type Query struct {
	// Labels and Fields must match; nil matches everything. Fields are the field selectors
	// of the API, with values converted by its scheme.
	Labels labels.Selector
	Fields fields.Selector
	// Of is which records are looked for.
	Of Kind
	// Limit is how many records are returned at most.
	Limit int
	// Continue is where a former query has stopped, empty for the first.
	Continue string
}

// Page is the result of a query.
type Page struct {
	Items []inventoryv1alpha1.IssuedCertificate
	// Continue is for the next query; empty after the last page.
	Continue string
	// Revision is the revision of the store up to which the page includes all changes.
	Revision int64
}

// ErrContinue means that Query.Continue is none of a former query.
var ErrContinue = errors.New("the continue token is not one of this server")

// Matches reports whether a record is one of the query.
func (q *Query) Matches(record *inventoryv1alpha1.IssuedCertificate) bool {
	if !q.Of.has(record) || q.Labels != nil && !q.Labels.Matches(labels.Set(record.Labels)) {
		return false
	}
	if q.Fields == nil {
		return true
	}
	return !slices.ContainsFunc(q.Fields.Requirements(), func(r fields.Requirement) bool {
		return !fits(record, r)
	})
}

// fits reports whether a record meets a requirement, or may meet it: not all names are in
// records.
func fits(record *inventoryv1alpha1.IssuedCertificate, r fields.Requirement) bool {
	presence := inventory.Fits(record, r.Field, r.Value)
	return presence == inventory.Possible || (r.Operator == selection.NotEquals) == (presence == inventory.Absent)
}

// equal returns the requirements that a field has a value.
func (q *Query) equal() fields.Requirements {
	if q.Fields == nil {
		return nil
	}
	return slices.DeleteFunc(q.Fields.Requirements(), func(r fields.Requirement) bool { return r.Operator == selection.NotEquals })
}

// terms returns what records of the query must have.
func (q *Query) terms() []term {
	var terms []term
	if q.Of == Denials || slices.ContainsFunc(q.equal(), isDenied) {
		terms = append(terms, newTerm(inventoryv1alpha1.DecisionField, inventoryv1alpha1.Denied))
	}
	for _, r := range q.equal() {
		if laterFields[r.Field] > 0 || inventory.IsCondition(r.Field) {
			continue
		}
		terms = append(terms, newTerm(r.Field, r.Value))
		// The name of a record follows from its fingerprint. A filter that is wrong about one
		// term in 300 is hardly ever wrong about two, so packs are not read in vain.
		if r.Field == inventoryv1alpha1.FingerprintField && len(r.Value) >= nameLength {
			terms = append(terms, newTerm(inventory.NameOfRecord, r.Value[:nameLength]))
		}
	}
	for _, r := range q.requirements() {
		values := r.ValuesUnsorted()
		if isEquality(r.Operator()) && len(values) == 1 && r.Key() != inventoryv1alpha1.NotAfterLabel {
			terms = append(terms, newTerm(labelPrefix+r.Key(), values[0]))
		}
	}
	return terms
}

func isDenied(r fields.Requirement) bool {
	return r.Field == inventoryv1alpha1.DecisionField && r.Value == inventoryv1alpha1.Denied
}

func isRevoked(r fields.Requirement) bool {
	return r.Field == inventoryv1alpha1.RevokedField && r.Value == "true"
}

// plain matches values that JSON does not escape.
var plain = regexp.MustCompile(`^[A-Za-z0-9 .:_/@*=,+-]+$`)

// verbatim are fields whose values are in the JSON of records as they are, in the same case.
var verbatim = []string{inventory.NameOfRecord, inventoryv1alpha1.SerialField, inventoryv1alpha1.FingerprintField, inventoryv1alpha1.KeyFingerprintField}

// literals returns texts that the JSON of each matching record contains: exact ones, and others
// in lower case, which it contains in any case unless the record omits names.
func (q *Query) literals() (exact, folded [][]byte) {
	for _, r := range q.equal() {
		switch {
		case !inventory.HasText(r.Field) || !plain.MatchString(r.Value):
		case slices.Contains(verbatim, r.Field):
			exact = append(exact, []byte(r.Value))
		default:
			folded = append(folded, []byte(strings.ToLower(r.Value)))
		}
	}
	return exact, folded
}

func (q *Query) requirements() labels.Requirements {
	if q.Labels == nil {
		return nil
	}
	requirements, _ := q.Labels.Requirements()
	return requirements
}

func isEquality(o selection.Operator) bool {
	return o == selection.Equals || o == selection.DoubleEquals || o == selection.In
}

// days returns the first and the last day on which certificates of the query end.
func (q *Query) days() (from, to int64) {
	from, to = -1<<62, 1<<62
	for _, r := range q.requirements() {
		if r.Key() != inventoryv1alpha1.NotAfterLabel || len(r.ValuesUnsorted()) != 1 {
			continue
		}
		var seconds int64
		if _, err := fmt.Sscan(r.ValuesUnsorted()[0], &seconds); err != nil {
			continue
		}
		switch at := dayOf(time.Unix(seconds, 0)); {
		case r.Operator() == selection.GreaterThan:
			from = max(from, at)
		case r.Operator() == selection.LessThan:
			to = min(to, at)
		case isEquality(r.Operator()):
			from, to = max(from, at), min(to, at)
		}
	}
	return from, to
}

// position is where a query has stopped: records are in the order of days; on each day
// there are first the packs, in order, then those that are in none, by their names.
type position struct {
	Day int64 `json:"d"`
	// Pack and Index locate the last record in a pack; Pack is -1 before the first one.
	Pack  int64 `json:"p"`
	Index int   `json:"i"`
	// Name is the name of the last record outside packs.
	Name string `json:"n,omitempty"`
}

func (p position) String() string {
	data, _ := json.Marshal(p) // numbers and a name
	return base64.RawURLEncoding.EncodeToString(data)
}

func parsePosition(text string) (position, error) {
	p := position{Day: -1 << 62, Pack: -1}
	if text == "" {
		return p, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return p, ErrContinue
	}
	return p, nil
}

// scan is a query that is under way.
type scan struct {
	*Query
	terms         []term
	choices       []choice
	bounds        bounds
	exact, folded [][]byte // as of literals
	at            position
	items         []inventoryv1alpha1.IssuedCertificate
	// budget is how many packs may still be read.
	budget int
}

// maxRead is the maximum number of packs that one query reads. A selector without a term may
// need all packs, and would delay other queries. A page that reaches maxRead is shorter than
// its limit.
const maxRead = 400

// full reports whether the page has to end.
func (s *scan) full() bool { return len(s.items) >= s.Limit || s.budget < 0 }

// Find returns the records of a query, ordered by the day of their end, earliest first. It
// finds everything that this process recorded before the call. Records written while a
// client continues a query may be missing from its later pages.
func (x *Index) Find(ctx context.Context, q *Query) (*Page, error) {
	if err := x.awaitRead(ctx); err != nil {
		return nil, err
	}
	at, err := parsePosition(q.Continue)
	if err != nil {
		return nil, err
	}
	s := &scan{Query: q, terms: q.terms(), choices: q.choices(x.now()), bounds: q.bounds(), at: at, budget: maxRead}
	s.exact, s.folded = q.literals()
	from, to := q.days()
	from = max(from, at.Day)
	x.mu.RLock()
	revision := x.seen
	x.mu.RUnlock()
	numbers := x.daysBetween(from, to)
	if slices.ContainsFunc(q.equal(), isRevoked) {
		ends := x.revokedDays()
		numbers = slices.DeleteFunc(numbers, func(number int64) bool { return !ends[number] })
	}
	for _, number := range numbers {
		if number != s.at.Day {
			s.at = position{Day: number, Pack: -1}
		}
		if err := x.scanDay(ctx, s, number); err != nil {
			return nil, err
		}
		if s.full() {
			return &Page{Items: s.items, Continue: s.at.String(), Revision: revision}, nil
		}
	}
	return &Page{Items: s.items, Revision: revision}, nil
}

// FindStored is like Find. But if it finds nothing, no process has recorded anything before the
// call: a client can learn of a certificate from a watch, or from another server, before this
// process knows its record. It may wait as AwaitStored does.
func (i *Inventory) FindStored(ctx context.Context, q *Query) (*Page, error) {
	page, err := i.Find(ctx, q)
	if err != nil || len(page.Items) > 0 || q.Continue != "" || page.Continue != "" {
		return page, err
	}
	if err := i.AwaitStored(ctx); err != nil {
		return nil, err
	}
	i.mu.RLock()
	changed := i.seen > page.Revision
	i.mu.RUnlock()
	if !changed {
		return page, nil
	}
	return i.Find(ctx, q)
}

// Each calls found for each record of a query until it returns false. It reads some records at
// a time.
func Each(ctx context.Context, of interface {
	Find(context.Context, *Query) (*Page, error)
}, query Query, found func(*inventoryv1alpha1.IssuedCertificate) bool) error {
	const page = 500
	query.Limit = page
	for {
		answer, err := of.Find(ctx, &query)
		if err != nil {
			return err
		}
		for n := range answer.Items {
			if !found(&answer.Items[n]) {
				return nil
			}
		}
		if query.Continue = answer.Continue; query.Continue == "" {
			return nil
		}
	}
}

// Has reports whether a certificate is recorded. It waits until the inventory is read.
func (x *Index) Has(ctx context.Context, cert *x509.Certificate) (bool, error) {
	page, err := x.Find(ctx, &Query{Limit: 1, Fields: fields.OneTermEqualSelector(inventoryv1alpha1.FingerprintField, pki.Fingerprint(cert))})
	if err != nil {
		return false, err
	}
	return len(page.Items) > 0, nil
}

// mayBeIn reports whether a pack may have records of the query.
func (s *scan) mayBeIn(p *packInfo) bool {
	return (p.newest == 0 || p.newest >= s.bounds.since) && p.filter.hasAll(s.terms) && !slices.ContainsFunc(s.choices, func(c choice) bool { return !c.mayBeIn(p) })
}

// mayBe reports whether a record may be one of the query: to decode all records of a pack
// takes most of the time of a search.
func (s *scan) mayBe(data []byte) bool {
	if s.bounds.exclude(data) || slices.ContainsFunc(s.exact, func(text []byte) bool { return !bytes.Contains(data, text) }) {
		return false
	}
	missing := slices.ContainsFunc(s.folded, func(text []byte) bool { return !mayHave(data, text) })
	return !missing || slices.ContainsFunc(s.choices, func(c choice) bool { return len(c.omitted) > 0 }) && bytes.Contains(data, omits)
}

// omits is in the JSON of records that leave out names. No value can have these quotes.
var omits = []byte(`"omittedNames":`)

// mayHave reports whether data may have a text of ASCII in lower case, in any case. It takes
// a quarter of the time of making all of data lower case.
func mayHave(data, text []byte) bool {
	if slices.ContainsFunc(data, func(octet byte) bool { return octet >= utf8.RuneSelf }) {
		return true // some other characters have ASCII lower cases, such as the Kelvin sign
	}
	for _, first := range slices.Compact([]byte{text[0], bytes.ToUpper(text[:1])[0]}) {
		for rest := data; ; rest = rest[1:] {
			at := bytes.IndexByte(rest, first)
			if at < 0 || len(rest)-at < len(text) {
				break
			}
			if rest = rest[at:]; bytes.EqualFold(rest[:len(text)], text) {
				return true
			}
		}
	}
	return false
}

// scanDay adds the records of a day behind s.at to s, until s is full.
func (x *Index) scanDay(ctx context.Context, s *scan, number int64) error {
	packs, outside := x.on(number)
	packs = slices.DeleteFunc(packs, func(p *packInfo) bool { return p.number < s.at.Pack || !s.mayBeIn(p) })
	slices.SortFunc(packs, byNumber)
	fresh := map[string]*inventoryv1alpha1.IssuedCertificate{}
	for _, f := range outside {
		if f.record.Name <= s.at.Name {
			continue
		}
		record := f.record
		if by := x.revocationOf(record.Name); by != nil {
			revoked := *record
			revoked.Revocation, record = by, &revoked
		}
		if s.Matches(record) {
			fresh[record.Name] = record
		}
	}
	for _, info := range packs {
		if err := x.scanPack(ctx, s, info, fresh); err != nil || s.full() {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fresh)) {
		if s.full() {
			return nil
		}
		s.at.Name = name
		s.items = append(s.items, *fresh[name].DeepCopy())
	}
	return nil
}

// scanPack adds the records of a pack behind s.at to s, until s is full, and removes from
// fresh those that have been packed since that was made.
func (x *Index) scanPack(ctx context.Context, s *scan, info *packInfo, fresh map[string]*inventoryv1alpha1.IssuedCertificate) error {
	if s.budget--; s.budget < 0 {
		return nil
	}
	p, err := x.readPack(ctx, info)
	if err != nil {
		return err
	}
	for index, data := range p.records {
		if info.number == s.at.Pack && index <= s.at.Index {
			continue
		}
		if s.full() {
			return nil
		}
		s.at.Pack, s.at.Index = info.number, index
		if !s.mayBe(data) {
			continue
		}
		record, err := decodeRecord(data)
		if err != nil {
			return err
		}
		delete(fresh, record.Name)
		record.Revocation = x.revocationOf(record.Name)
		// A name that is not behind s.at.Name was in a former page, before it was packed.
		if record.Name > s.at.Name && s.Matches(record) {
			s.items = append(s.items, *record)
		}
	}
	return nil
}
