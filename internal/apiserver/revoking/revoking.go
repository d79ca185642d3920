// Package revoking finds the certificates that a Revocation names, and decides whether its
// creator may revoke them.
package revoking

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// Resource is the resource of Revocations.
var Resource = v1alpha1.GroupVersion.WithResource("revocations").GroupResource()

// Revoker resolves Revocations. It is safe for concurrent use.
type Revoker struct {
	Config
	// resolved are those of requests under way, by UID: the store needs what admission has
	// found.
	resolved sync.Map
	// selecting has room for the selection that is under way: each may read all records.
	selecting chan struct{}
}

// Config has what a Revoker needs.
type Config struct {
	Records    *inventory.Inventory
	Authorizer authorizer.UnconditionalAuthorizer
	Clock      clock.PassiveClock
	// CAs returns the CAs whose certificates need no record.
	CAs func(context.Context) ([]CA, error)
	// Signers returns the Signers.
	Signers func(context.Context) ([]v1alpha1.Signer, error)
}

// CA is a CA that the server trusts.
type CA struct {
	Certificate *x509.Certificate
	// Signer is the name that the right to revoke is about.
	Signer string
	// Bundle is the ClusterTrustBundle with the CA; empty for CAs of client certificates.
	Bundle string
}

// New returns a Revoker.
func New(cfg Config) *Revoker { return &Revoker{Config: cfg, selecting: make(chan struct{}, 1)} }

// Resolved is what a Revocation does.
type Resolved struct {
	// Entries are to be recorded. Those of certificates that were revoked before, for another
	// reason, are among them.
	Entries []revocation.Entry
	// Pending is Act.Pending.
	Pending string
	// Status is the status of the Revocation.
	Status v1alpha1.RevocationStatus
}

// target is a certificate that a Revocation names.
type target struct {
	entry revocation.Entry
	// signer is the signer, in the API group of the right to it.
	signer signer
	// request is the one for the certificate; empty if that is not recorded.
	request requested
	// forOrder is true if the request says that it is for an order of the ACME server.
	forOrder bool
	isCA     bool
	// own is true for a certificate that the server has made for itself.
	own bool
	// path and revoked are for errors and warnings.
	path    *field.Path
	revoked *revocation.Revoked
}

// requested is what rights depend on in a request. A selection has many.
type requested struct{ requester, group, kind, namespace string }

// Resolve returns what a Revocation does, or why its creator may not create it: an error of
// the API. A second call for the same UID returns the same, until ctx ends.
func (r *Revoker) Resolve(ctx context.Context, by user.Info, object *v1alpha1.Revocation) (*Resolved, error) {
	if known, ok := r.resolved.Load(object.UID); ok {
		return known.(*Resolved), nil
	}
	if r.Records == nil {
		return nil, apierrors.NewServiceUnavailable("this server has no inventory, so it cannot revoke certificates")
	}
	reason, err := pki.ParseReason(string(object.Spec.Reason))
	if err != nil {
		return nil, invalid(object, field.Invalid(field.NewPath("spec.reason"), object.Spec.Reason, err.Error()))
	}
	now := r.Clock.Now().UTC().Truncate(time.Second)
	cas := sync.OnceValues(func() ([]CA, error) { return r.CAs(ctx) })
	finding, cancel := beforeDeadline(ctx, r.Clock)
	defer cancel()
	targets, errs := r.targets(finding, object, cas, now)
	if finding.Err() != nil {
		return nil, apierrors.NewTimeoutError("counting the certificates took too long: narrow the selection", 0)
	}
	// Rights come first: errors about numbers and records are for those who may revoke.
	if err := r.mayRevoke(ctx, by, object, targets); err != nil {
		return nil, err
	}
	if len(errs) > 0 {
		return nil, invalid(object, errs...)
	}
	resolved := &Resolved{Status: v1alpha1.RevocationStatus{
		RequestedBy: &v1alpha1.RevocationUser{Username: by.GetName(), UID: types.UID(by.GetUID())}, Time: &metav1.Time{Time: now}, Ends: &metav1.Time{Time: now},
		Conditions: []metav1.Condition{{
			Type: v1alpha1.RevocationRecorded, Status: metav1.ConditionTrue, Reason: v1alpha1.RevocationRecorded, LastTransitionTime: metav1.Time{Time: now},
			Message: "the certificates are refused by this server",
		}},
	}}
	if resolved.Pending, err = r.pendingOf(ctx, by, object.Spec.Selection, targets); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	for _, t := range targets {
		t.entry.Time, t.entry.Reason = now, reason
		if t.entry.NotAfter.After(resolved.Status.Ends.Time) {
			resolved.Status.Ends.Time = t.entry.NotAfter
		}
		if t.revoked == nil {
			resolved.Status.Recorded++
			resolved.Entries = append(resolved.Entries, t.entry)
			continue
		}
		resolved.Status.AlreadyRevoked++
		if object.Spec.Selection == nil {
			warning.AddWarning(ctx, "", fmt.Sprintf("%s: revoked on %s by %s (Revocation %s)", t.path, t.revoked.Time.Format(time.RFC3339), t.revoked.By.User, t.revoked.By.Name))
		}
		if reason == pki.ReasonKeyCompromise && t.revoked.Reason != reason {
			resolved.Entries = append(resolved.Entries, t.entry)
		}
	}
	if object.UID != "" {
		r.resolved.Store(object.UID, resolved)
		context.AfterFunc(ctx, func() { r.resolved.Delete(object.UID) })
	}
	return resolved, nil
}

// beforeDeadline returns a context that ends when a tenth of the time is left: the client is
// to learn why its request failed.
func beforeDeadline(ctx context.Context, clock clock.PassiveClock) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, end.Sub(clock.Now())*9/10)
	}
	return context.WithCancel(ctx)
}

func invalid(object *v1alpha1.Revocation, errs ...*field.Error) error {
	return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("Revocation").GroupKind(), object.Name, errs)
}

// targets returns the certificates that a Revocation names, each once.
func (r *Revoker) targets(ctx context.Context, object *v1alpha1.Revocation, cas knownCAs, now time.Time) ([]target, field.ErrorList) {
	if object.Spec.Selection != nil {
		return r.selected(ctx, object.Spec, now)
	}
	var targets []target
	var errs field.ErrorList
	found := map[string]bool{}
	for n, named := range object.Spec.Certificates {
		path := field.NewPath("spec", "certificates").Index(n)
		t, err := r.named(ctx, named, cas, path)
		if err == nil {
			err = isRevocable(t, pki.ReasonCACompromise.String() == string(object.Spec.Reason), now)
		}
		if err == nil && t.isCA {
			err = r.checkCA(ctx, t, cas)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		id := string(t.entry.Authority) + "\x00" + string(t.entry.Serial)
		if found[id] {
			continue
		}
		found[id] = true
		if revoked, ok := r.Records.Revoked().Entry(&t.entry); ok {
			t.revoked = &revoked
		}
		targets = append(targets, *t)
	}
	return targets, errs
}

func isRevocable(t *target, compromised bool, now time.Time) *field.Error {
	switch {
	case !t.entry.NotAfter.After(now):
		return field.Forbidden(t.path, "ended on "+t.entry.NotAfter.Format(time.RFC3339))
	case compromised && !t.isCA:
		return field.Invalid(field.NewPath("spec.reason"), "CACompromise", "is for CA certificates: use KeyCompromise")
	}
	return nil
}

// knownCAs returns what Config.CAs does, and asks once for a Revocation.
type knownCAs func() ([]CA, error)

// named returns a certificate.
func (r *Revoker) named(ctx context.Context, named v1alpha1.RevokedCertificate, cas knownCAs, path *field.Path) (*target, *field.Error) {
	switch {
	case named.PEM != "":
		return r.byPEM(ctx, named.PEM, cas, path)
	case named.SerialNumber != "":
		return r.bySerial(ctx, named, cas, path)
	}
	record, err := r.find(ctx, inventoryv1alpha1.FingerprintField, strings.ToLower(named.Fingerprint), nil)
	if err != nil {
		return nil, field.InternalError(path, err)
	}
	if record == nil {
		return nil, field.NotFound(path.Child("fingerprint"), named.Fingerprint+": no certificate with this fingerprint is recorded: give it as pem, or by serialNumber and authorityKeyID")
	}
	t, err := ofRecord(record, path)
	if err != nil {
		return nil, field.Forbidden(path.Child("fingerprint"), err.Error())
	}
	if t.entry.Fingerprints[1] == (revocation.Digest{}) && strings.HasPrefix(record.Certificate.SignatureAlgorithm, "ECDSA") {
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: the record is from before revocation, so the webhook of kube-apiserver can be evaded: give the certificate as pem", path))
	}
	return t, nil
}

// find returns the first record with a value of a field that matches, nil if there is none.
func (r *Revoker) find(ctx context.Context, name, value string, matches func(*inventoryv1alpha1.IssuedCertificate) bool) (*inventoryv1alpha1.IssuedCertificate, error) {
	var found *inventoryv1alpha1.IssuedCertificate
	err := inventory.Each(ctx, r.Records, inventory.Query{Fields: fields.OneTermEqualSelector(name, value)}, func(record *inventoryv1alpha1.IssuedCertificate) bool {
		if matches == nil || matches(record) {
			found = record
		}
		return found == nil
	})
	return found, err
}

// ofRecord returns the target that a record describes.
func ofRecord(record *inventoryv1alpha1.IssuedCertificate, path *field.Path) (*target, error) {
	entry, err := revocation.EntryOfRecord(record, time.Time{}, 0)
	if err != nil {
		return nil, err
	}
	return recorded(record, entry, path), nil
}

// recorded returns the target of an entry with a record.
func recorded(record *inventoryv1alpha1.IssuedCertificate, entry revocation.Entry, path *field.Path) *target {
	return &target{
		entry: entry, signer: signerOf(record), request: requested{record.Request.Requester, record.Request.APIGroup, record.Request.Kind, record.Request.Namespace}, forOrder: record.Location != nil && record.Location.Kind == "AcmeOrder",
		isCA: record.Certificate.IsCA, own: record.Use != "", path: path,
	}
}

// byPEM returns a certificate that is given. Its record is found by any of its two
// fingerprints; without a record, a known CA must have signed it.
func (r *Revoker) byPEM(ctx context.Context, text string, cas knownCAs, path *field.Path) (*target, *field.Error) {
	path = path.Child("pem")
	cert, err := pki.ParseOneCertificate([]byte(text))
	if err != nil {
		return nil, field.Invalid(path, "", err.Error())
	}
	own, other := pki.Fingerprint(cert), pki.OtherFingerprint(cert)
	record, err := r.find(ctx, inventoryv1alpha1.FingerprintField, own, nil)
	if err == nil && record == nil && other != "" {
		if record, err = r.find(ctx, inventoryv1alpha1.FingerprintField, other, nil); record != nil {
			warning.AddWarning(ctx, "", fmt.Sprintf("%s: the signature differs from the recorded one: somebody has rewritten it", path))
		}
	}
	if err != nil {
		return nil, field.InternalError(path, err)
	}
	entry := revocation.EntryOf(cert, time.Time{}, 0)
	if n := len(entry.Serial); n == 0 || n > revocation.MaxSerial {
		return nil, field.Forbidden(path, fmt.Sprintf("the serial number must be positive and have at most %d octets (RFC 5280 section 4.1.2.2)", revocation.MaxSerial))
	}
	if record != nil {
		return recorded(record, entry, path), nil
	}
	known, err := cas()
	if err != nil {
		return nil, field.InternalError(path, err)
	}
	for _, ca := range known {
		if bytes.Equal(cert.RawIssuer, ca.Certificate.RawSubject) && cert.CheckSignatureFrom(ca.Certificate) == nil {
			return &target{entry: entry, signer: signer{name: ca.Signer}, isCA: cert.IsCA, path: path}, nil
		}
	}
	return nil, field.Forbidden(path, "is signed by no CA that this server knows")
}

// bySerial returns a certificate by its serial number and the identifier of its CA's key.
// Without a record, it is revoked until the end of its CA.
func (r *Revoker) bySerial(ctx context.Context, named v1alpha1.RevokedCertificate, cas knownCAs, path *field.Path) (*target, *field.Error) {
	serial, err := revocation.ParseSerial(named.SerialNumber)
	if err != nil {
		return nil, field.Invalid(path.Child("serialNumber"), named.SerialNumber, err.Error())
	}
	id := strings.ToLower(named.AuthorityKeyID)
	record, err := r.find(ctx, inventoryv1alpha1.SerialField, strings.TrimLeft(strings.ToLower(named.SerialNumber), "0"), func(record *inventoryv1alpha1.IssuedCertificate) bool {
		return record.Certificate.AuthorityKeyID == id
	})
	if err != nil {
		return nil, field.InternalError(path, err)
	}
	if record != nil {
		t, err := ofRecord(record, path)
		if err != nil {
			return nil, field.Forbidden(path, err.Error())
		}
		return t, nil
	}
	known, err := cas()
	if err != nil {
		return nil, field.InternalError(path, err)
	}
	for _, ca := range known {
		if hex.EncodeToString(ca.Certificate.SubjectKeyId) != id {
			continue
		}
		warning.AddWarning(ctx, "", fmt.Sprintf("%s: no record: kube-apiserver's webhook cannot refuse it, because it knows fingerprints only", path))
		entry := revocation.Entry{Authority: ca.Certificate.SubjectKeyId, Serial: serial, NotAfter: ca.Certificate.NotAfter.UTC()}
		return &target{entry: entry, signer: signer{name: ca.Signer}, path: path}, nil
	}
	return nil, field.NotFound(path.Child("authorityKeyID"), named.AuthorityKeyID+": no CA that this server knows has this key identifier")
}

// Delete returns an error if a Revocation must not be deleted yet.
func (r *Revoker) Delete(object *v1alpha1.Revocation) error {
	ends := object.Status.Ends
	if ends == nil || ends.After(r.Clock.Now()) {
		return apierrors.NewForbidden(Resource, object.Name, errors.New("a revocation cannot be undone; this object is deleted when its certificates have ended"))
	}
	return nil
}

// Parts returns the entries in parts that are small enough for one value of the store.
func (r *Resolved) Parts() [][]revocation.Entry {
	return slices.Collect(slices.Chunk(r.Entries, entriesOfPart))
}

// entriesOfPart is how many entries one value of the store has at most, about 340 KiB.
const entriesOfPart = 4000
