package passon

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// Records is an inventory of issued certificates.
type Records interface {
	// With returns the records in which a field, as in field selectors, has a value.
	With(ctx context.Context, field, value string) ([]inventoryv1alpha1.IssuedCertificate, error)
	// Revoked is what the records show as revoked.
	Revoked() *revocation.Index
}

// Issuers are the issuers of all types: issuertypes.Issuers.
type Issuers interface {
	Find(name certmanager.IssuerType) (found issuing.Type, ok bool)
	Revoke(ctx context.Context, of cmv1.GenericIssuer, cert issuing.Revoked) (elsewhere bool, err error)
}

// issued is a certificate of an issuer.
type issued struct {
	signer      string
	request     inventoryv1alpha1.RequestFacts
	fingerprint string
	cert        issuing.Revoked
}

var (
	errNotReadYet = errors.New("the records do not show yet what the Revocation has revoked")
	errNoIssuer   = errors.New("the issuer does not exist")
)

// tell has the CA of a certificate's issuer revoke it. elsewhere is false if the CA is
// not external.
func (r *reconciler) tell(ctx context.Context, i *issued) (elsewhere bool, err error) {
	who, ok := certmanager.ParseSignerName(i.signer)
	if !ok {
		return true, issuing.ErrCannotRevoke // an issuer of another program
	}
	issuer, err := certmanager.NewIssuer(who.Kind)
	if err != nil {
		return true, err
	}
	err = r.cache.Get(ctx, client.ObjectKey{Namespace: who.Namespace, Name: who.Name}, issuer)
	switch {
	case apierrors.IsNotFound(err):
		return true, errNoIssuer
	case err != nil:
		return true, fmt.Errorf("reading the issuer: %w", err)
	}
	elsewhere, err = r.Issuers.Revoke(ctx, issuer, i.cert)
	if !errors.Is(err, issuing.ErrNoCertificate) {
		return elsewhere, err
	}
	if i.cert.DER, err = r.stored(ctx, i); err != nil {
		return true, fmt.Errorf("reading the request: %w", err)
	}
	return r.Issuers.Revoke(ctx, issuer, i.cert)
}

// stored returns a certificate from the status of its request; nil if it is not there.
func (r *reconciler) stored(ctx context.Context, i *issued) ([]byte, error) {
	cr, csr := &cmv1.CertificateRequest{}, &certificatesv1.CertificateSigningRequest{}
	var of client.Object = csr
	if i.request.Kind == cmv1.CertificateRequestKind {
		of = cr
	}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: i.request.Namespace, Name: i.request.Name}, of); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	for _, bundle := range [][]byte{cr.Status.Certificate, csr.Status.Certificate} {
		if der, fingerprint := leafOf(bundle); fingerprint == i.fingerprint {
			return der, nil
		}
	}
	return nil, nil // a later request with this name
}

// leafOf returns the first certificate of a bundle, and its fingerprint.
func leafOf(bundle []byte) (der []byte, fingerprint string) {
	block, _ := pem.Decode(bundle)
	if block == nil {
		return nil, ""
	}
	digest := sha256.Sum256(block.Bytes)
	return block.Bytes, hex.EncodeToString(digest[:])
}

// find returns the certificates of a Revocation that come from issuers of cert-manager.io.
func (r *reconciler) find(ctx context.Context, object *v1alpha1.Revocation) ([]issued, error) {
	reason, err := pki.ParseReason(string(object.Spec.Reason))
	if err != nil {
		return nil, nil // its definition was changed
	}
	records := r.Records
	if records == nil {
		if records, err = r.requests(ctx); err != nil {
			return nil, err
		}
	}
	var all []issued
	add := func(record *inventoryv1alpha1.IssuedCertificate, der []byte) {
		serial, ok := new(big.Int).SetString(record.Certificate.SerialNumber, 16)
		_, isIssuer := certmanager.ParseSignerName(record.SignerName)
		if ok && (isIssuer || record.Request.Kind == cmv1.CertificateRequestKind) {
			cert := issuing.Revoked{Serial: serial, DER: der, Reason: reason}
			all = append(all, issued{record.SignerName, record.Request, record.Certificate.Fingerprint, cert})
		}
	}
	if object.Spec.Selection != nil {
		return all, r.selected(ctx, object, func(record *inventoryv1alpha1.IssuedCertificate) { add(record, nil) })
	}
	for n := range object.Spec.Certificates {
		record, der, err := recordOf(ctx, &object.Spec.Certificates[n], records)
		if err != nil {
			return nil, err
		}
		if record != nil {
			add(record, der)
		}
	}
	return all, nil
}

// recordOf returns the record of a certificate that a Revocation names, nil if there is none,
// and the certificate if it is given.
func recordOf(ctx context.Context, named *v1alpha1.RevokedCertificate, records Records) (*inventoryv1alpha1.IssuedCertificate, []byte, error) {
	field, values, der := inventoryv1alpha1.FingerprintField, []string{strings.ToLower(named.Fingerprint)}, []byte(nil)
	switch {
	case named.PEM != "":
		cert, err := pki.ParseOneCertificate([]byte(named.PEM))
		if err != nil {
			return nil, nil, nil // admission refuses it
		}
		values, der = []string{pki.Fingerprint(cert), pki.OtherFingerprint(cert)}, cert.Raw
	case named.SerialNumber != "":
		field, values = inventoryv1alpha1.SerialField, []string{strings.TrimLeft(strings.ToLower(named.SerialNumber), "0")}
	}
	for _, value := range values {
		if value == "" {
			continue
		}
		found, err := records.With(ctx, field, value)
		if err != nil {
			return nil, nil, err
		}
		for n := range found {
			if named.AuthorityKeyID != "" && !strings.EqualFold(found[n].Certificate.AuthorityKeyID, named.AuthorityKeyID) {
				continue
			}
			if found[n].Certificate.Fingerprint != values[0] {
				der = nil // somebody has rewritten what is given
			}
			return &found[n], der, nil
		}
	}
	return nil, nil, nil
}

// selected calls add for each record of an issuer that a Revocation with a selection has
// revoked.
func (r *reconciler) selected(ctx context.Context, object *v1alpha1.Revocation, add func(*inventoryv1alpha1.IssuedCertificate)) error {
	if r.Records == nil {
		return nil // admission refuses it
	}
	if _, _, ok := r.Records.Revoked().Act(object.UID); !ok {
		return errNotReadYet
	}
	issuers, clusterIssuers := &cmv1.IssuerList{}, &cmv1.ClusterIssuerList{}
	if err := errors.Join(r.cache.List(ctx, issuers), r.cache.List(ctx, clusterIssuers)); err != nil {
		return fmt.Errorf("listing the issuers: %w", err)
	}
	var all []cmv1.GenericIssuer
	for n := range issuers.Items {
		all = append(all, &issuers.Items[n])
	}
	for n := range clusterIssuers.Items {
		all = append(all, &clusterIssuers.Items[n])
	}
	for _, issuer := range all {
		if found, _ := r.Issuers.Find(certmanager.TypeOf(issuer.GetSpec())); found.InProcess {
			continue
		}
		records, err := r.Records.With(ctx, inventoryv1alpha1.SignerField, certmanager.SignerOf(issuer).String())
		if err != nil {
			return err
		}
		for n := range records {
			if by := records[n].Revocation; by != nil && by.Name == object.Name {
				add(&records[n])
			}
		}
	}
	return nil
}

// requests replaces the inventory in a cluster: it finds the issuer of a certificate through the
// existing requests, by fingerprint.
type requests map[string]request

type request struct {
	signer string
	facts  inventoryv1alpha1.RequestFacts
	der    []byte
}

// requests reads the requests of a cluster.
func (r *reconciler) requests(ctx context.Context) (requests, error) {
	crs, csrs := &cmv1.CertificateRequestList{}, &certificatesv1.CertificateSigningRequestList{}
	if err := errors.Join(r.cache.List(ctx, crs), r.cache.List(ctx, csrs)); err != nil {
		return nil, fmt.Errorf("listing the requests: %w", err)
	}
	all := requests{}
	for _, cr := range crs.Items {
		if der, fingerprint := leafOf(cr.Status.Certificate); der != nil {
			facts := inventoryv1alpha1.RequestFacts{Kind: cmv1.CertificateRequestKind, Namespace: cr.Namespace, Name: cr.Name}
			all[fingerprint] = request{certmanager.SignerText(&cr), facts, der}
		}
	}
	for _, csr := range csrs.Items {
		if der, fingerprint := leafOf(csr.Status.Certificate); der != nil {
			all[fingerprint] = request{csr.Spec.SignerName, inventoryv1alpha1.RequestFacts{Name: csr.Name}, der}
		}
	}
	return all, nil
}

// Revoked implements Records.
func (requests) Revoked() *revocation.Index { return nil }

// With implements Records.
func (r requests) With(_ context.Context, field, value string) ([]inventoryv1alpha1.IssuedCertificate, error) {
	of, ok := r[value]
	cert, err := x509.ParseCertificate(of.der)
	if !ok || err != nil || field != inventoryv1alpha1.FingerprintField {
		return nil, nil
	}
	facts := inventoryv1alpha1.CertificateFacts{SerialNumber: cert.SerialNumber.Text(16), Fingerprint: value}
	return []inventoryv1alpha1.IssuedCertificate{{SignerName: of.signer, Request: of.facts, Certificate: facts}}, nil
}
