package inventory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// signatureStorage lets lists be signed with keys that this server does not have: it gives away
// the next list of a CA without its signature, and stores that list with a signature. Nothing
// is remembered in between: the list is made again, and must be the same.
type signatureStorage struct {
	listObject
	lists *listStorage
	Signing
}

// Signing is what signatures from elsewhere need.
type Signing struct {
	// CA returns the CA whose list has a name, with the names of its signers; nil if it is
	// not known.
	CA func(ctx context.Context, list string) (ca *x509.Certificate, signers []string, err error)
	// Held returns why no list may be signed now; nil if one may.
	Held func(context.Context) error
}

var (
	_ rest.Getter  = &signatureStorage{}
	_ rest.Updater = &signatureStorage{}
)

// draft is the next list of a CA. Its digest is that of the unsigned list.
type draft struct {
	*revocation.StoredList
	linted *pki.LintedList
	ca     *x509.Certificate
	former int64 // the revision of the stored list; 0 if there is none
}

// draft makes the next list of a CA, which is valid as long as the CA. Number and begin are
// those of an earlier draft; zero for a new one.
func (s *signatureStorage) draft(ctx context.Context, name string, number int64, begin time.Time) (*draft, error) {
	records := s.lists.records
	if err := records.AwaitRead(ctx); err != nil {
		return nil, explain(err)
	}
	if err := s.Held(ctx); err != nil {
		return nil, err
	}
	d := &draft{StoredList: &revocation.StoredList{}}
	last := int64(0)
	if list := records.Lists.Get(name); list != nil && list.Last != nil {
		d.Chain, d.Signers, d.Ends, d.former, last = list.Last.Chain, list.Last.Signers, list.Last.Ends, list.Revision, list.Last.Number
	} else { // it has never been signed
		ca, signers, err := s.CA(ctx, name)
		switch {
		case err != nil:
			return nil, apierrors.NewInternalError(err)
		case ca == nil:
			return nil, listNotFound(name)
		}
		d.Chain, d.Signers = [][]byte{ca.Raw}, signers
	}
	chain, err := d.Certificates()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	now := records.Now()
	d.ca = chain[0]
	most := max(now.UnixMilli(), last+1)
	d.Number = cmp.Or(number, most)
	d.ThisUpdate = begin.UTC()
	if begin.IsZero() {
		d.ThisUpdate = pki.Later(now.Add(-revocation.Backdate), d.ca.NotBefore).UTC().Truncate(time.Second)
	}
	d.NextUpdate, d.RenewBy = d.ca.NotAfter.UTC(), d.ca.NotAfter.UTC()
	d.Covers, d.EndedBefore = records.Lists.RevokedTo(), d.ThisUpdate.Add(-revocation.UnlistedAfter)
	if d.Number > most || d.ThisUpdate.After(now) {
		return nil, apierrors.NewBadRequest("number and thisUpdate must be those of the unsigned list")
	}
	if d.linted, err = d.Lint(nil, records.Revoked(), last); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	sum := sha256.Sum256(d.linted.TBS())
	d.SHA256 = sum[:]
	return d, nil
}

// show returns the draft as an object.
func (d *draft) show(name string) *inventoryv1alpha1.RevocationList {
	object := describe(name, d.StoredList, d.former)
	object.Unsigned = d.linted.TBS()
	return object
}

// Get implements rest.Getter.
func (s *signatureStorage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	d, err := s.draft(ctx, name, 0, time.Time{})
	if err != nil {
		return nil, err
	}
	return d.show(name), nil
}

// Update implements rest.Updater: it stores the list with a signature.
func (s *signatureStorage) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, _ rest.ValidateObjectFunc,
	validate rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	former, err := s.Get(ctx, name, nil)
	if err != nil {
		return nil, false, err
	}
	updated, err := info.UpdatedObject(ctx, former)
	if err == nil && validate != nil {
		err = validate(ctx, updated, former)
	}
	if err != nil {
		return nil, false, err
	}
	signed, ok := updated.(*inventoryv1alpha1.RevocationList)
	if !ok {
		return nil, false, apierrors.NewBadRequest("not a RevocationList")
	}
	changed := apierrors.NewConflict(listResource, name, errors.New("the list has changed: run the command again"))
	if signed.ResourceVersion != former.(*inventoryv1alpha1.RevocationList).ResourceVersion {
		return nil, false, changed
	}
	d, err := s.draft(ctx, name, signed.Number, signed.ThisUpdate.Time)
	if err != nil {
		return nil, false, err
	}
	if signed.SHA256 != hex.EncodeToString(d.SHA256) {
		return nil, false, changed
	}
	der, err := d.linted.Signed(signed.Signature)
	if err == nil {
		err = d.Seal(der, true)
	}
	if err != nil {
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("signature: not by the key of %s: %v", d.ca.Subject, err))
	}
	if options != nil && len(options.DryRun) > 0 {
		return d.show(name), false, nil
	}
	err = s.lists.records.Lists.Put(ctx, name, d.StoredList, der, d.former)
	if errors.Is(err, inventory.ErrListConflict) {
		return nil, false, changed
	}
	if err != nil {
		return nil, false, err
	}
	klog.FromContext(ctx).Info("Stored a revocation list that was signed elsewhere", "ca", d.ca.Subject.String(), "list", name, "number", d.Number, "entries", d.Entries)
	object, err := s.lists.Get(ctx, name, nil)
	return object, false, err
}
