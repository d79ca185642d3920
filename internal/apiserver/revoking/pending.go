package revoking

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	apiinventory "github.com/certplane/certplane/internal/api/inventory"
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
}

func (s signer) id() string { return s.groupName() + " " + s.name }

// pendingOf returns Act.Pending for a Revocation.
func (r *Revoker) pendingOf(ctx context.Context, by user.Info, s *v1alpha1.RevocationSelection, targets []target) (string, error) {
	if s == nil || s.PendingRequests != nil && !*s.PendingRequests {
		return "", nil
	}
	p, may := pending{Selection: s}, asker{r.Authorizer, by, map[question]bool{}}
	add := func(of signer) {
		if id := of.id(); !slices.Contains(p.Signers, id) && may.use(ctx, Verb, of) {
			p.Signers = append(p.Signers, id)
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
	for _, a := range index.Pending(now.Add(-pendingFor)) {
		p := pending{}
		if !created.Before(a.Time) || json.Unmarshal([]byte(a.Act.Pending), &p) != nil || !p.selects(record, a.User, created) {
			continue
		}
		entry, err := revocation.EntryOfRecord(record, now, a.Reason)
		if err != nil {
			continue // no list can name it
		}
		return revocation.Act{UID: a.UID + types.UID("-pending-"+record.Name), Name: a.Name, User: a.User}, entry, true
	}
	return act, entry, false
}

func (p pending) selects(record *inventoryv1alpha1.IssuedCertificate, creator string, created time.Time) bool {
	of, err := labels.Parse(p.Selection.Labels)
	before := p.Selection.IssuedBefore
	return err == nil && of.Matches(labels.Set(record.Labels)) && apiinventory.Selects(p.Selection, record) &&
		(before == nil || created.Before(before.Time)) && !record.Certificate.IsCA &&
		(record.Request.Requester == creator || slices.Contains(p.Signers, signerOf(record).id()))
}
