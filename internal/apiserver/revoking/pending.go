package revoking

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	apiinventory "github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/revocation"
)

// pendingFor is how long after a Revocation certificates are revoked when they are issued.
const pendingFor = 24 * time.Hour

// pending is the stored form of spec.selection.pendingRequests.
type pending struct {
	Selection *v1alpha1.RevocationSelection `json:"selection"`
	// Signers are those whose certificates the creator might revoke, as signer.id: the rights
	// to certificates that do not exist yet cannot be checked one by one.
	Signers []string `json:"signers,omitempty"`
	// Many are those of which the creator might revoke more than fewAtOnce.
	Many []string `json:"many,omitempty"`
}

func (s signer) id() string { return s.groupName() + " " + s.name }

// pendingOf returns Act.Pending for a Revocation.
func (r *Revoker) pendingOf(ctx context.Context, by user.Info, s *v1alpha1.RevocationSelection, targets []target) (string, error) {
	if s == nil || s.PendingRequests != nil && !*s.PendingRequests {
		return "", nil
	}
	p, may := pending{Selection: s}, asker{r.Authorizer, by, map[question]bool{}}
	add := func(of signer) {
		for verb, signers := range map[string]*[]string{Verb: &p.Signers, VerbMany: &p.Many} {
			if id := of.id(); !slices.Contains(*signers, id) && may.use(ctx, verb, of) {
				*signers = append(*signers, id)
			}
		}
	}
	for _, t := range targets {
		add(t.signer)
	}
	for _, name := range s.Signers {
		add(signer{name: name})
		add(signer{"cert-manager.io", name})
	}
	text, err := json.Marshal(p)
	return string(text), err
}

// Pending returns the act and the entry that revoke a certificate because its request was
// pending when a Revocation was made; ok is false if there is no such Revocation. Times have
// whole seconds: requests of the same second count as later ones, because what is revoked is
// often requested again at once.
func Pending(index *revocation.Index, record *inventoryv1alpha1.IssuedCertificate, created, now time.Time) (act revocation.Act, entry revocation.Entry, ok bool) {
	for _, a := range ActsWithPending(index, now) {
		if act, entry, ok = PendingOf(index, a, record, created, now); ok {
			return act, entry, true
		}
	}
	return act, entry, false
}

// ActsWithPending returns the Revocations that still revoke certificates of pending requests.
func ActsWithPending(index *revocation.Index, now time.Time) []revocation.PendingAct {
	return index.Pending(now.Add(-pendingFor))
}

// PendingOf is Pending for one Revocation.
func PendingOf(index *revocation.Index, a revocation.PendingAct, record *inventoryv1alpha1.IssuedCertificate, created, now time.Time) (act revocation.Act, entry revocation.Entry, ok bool) {
	p := pending{}
	if !created.Before(a.Time) || json.Unmarshal([]byte(a.Act.Pending), &p) != nil || !p.selects(record, a.User, created) {
		return act, entry, false
	}
	many := len(p.Selection.AuthorityKeyIDs) > 0 || index.EntriesOf(a.UID) >= fewAtOnce
	if many && !slices.Contains(p.Many, signerOf(record).id()) {
		return act, entry, false
	}
	entry, err := revocation.EntryOfRecord(record, now, a.Reason) // fails if no list can name it
	return revocation.Act{UID: a.UID + types.UID("-pending-"+record.Name), Name: a.Name, User: a.User}, entry, err == nil
}

// PendingQueries returns queries for the records since a time that a Revocation with pending
// requests may select.
func PendingQueries(a revocation.PendingAct, since time.Time) []inventory.Query {
	p := pending{}
	if json.Unmarshal([]byte(a.Act.Pending), &p) != nil {
		return nil
	}
	all := queries(p.Selection)
	for n := range all {
		later := fields.OneTermEqualSelector(inventoryv1alpha1.IssuedSinceField, strconv.FormatInt(since.Unix(), 10))
		if all[n].Fields != nil {
			later = fields.AndSelectors(all[n].Fields, later)
		}
		all[n].Fields = later
	}
	return all
}

func (p pending) selects(record *inventoryv1alpha1.IssuedCertificate, creator string, created time.Time) bool {
	of, err := labels.Parse(p.Selection.Labels)
	before := p.Selection.IssuedBefore
	return err == nil && of.Matches(labels.Set(record.Labels)) && apiinventory.Selects(p.Selection, record) &&
		(before == nil || created.Before(before.Time)) && !record.Certificate.IsCA &&
		(record.Request.Requester == creator || slices.Contains(p.Signers, signerOf(record).id()))
}
