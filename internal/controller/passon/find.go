package passon

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
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
	// Each calls found for each record in which a field, as in field selectors, has a value. It
	// reads some records at a time.
	Each(ctx context.Context, field, value string, found func(*inventoryv1alpha1.IssuedCertificate)) error
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
	cert, err := pki.ParseFirst(slices.Concat(cr.Status.Certificate, csr.Status.Certificate)) // one of them is empty
	if err != nil || pki.Fingerprint(cert) != i.fingerprint {
		return nil, nil // a later request with this name
	}
	return cert.Raw, nil
}

// find returns the certificates of a Revocation that come from issuers of cert-manager.io.
func (r *reconciler) find(ctx context.Context, object *v1alpha1.Revocation) ([]issued, error) {
	reason, err := pki.ParseReason(string(object.Spec.Reason))
	if err != nil {
		return nil, nil // its definition was changed
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
		err := r.selected(ctx, object, func(record *inventoryv1alpha1.IssuedCertificate) { add(record, nil) })
		return all, err
	}
	records := r.Records
	if records == nil {
		if records, err = r.requests(ctx); err != nil {
			return nil, err
		}
	}
	for n := range object.Spec.Certificates {
		if err := named(ctx, &object.Spec.Certificates[n], records, add); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// named calls add with the record of a certificate that a Revocation names, if there is one, and
// with the certificate if it is given.
func named(ctx context.Context, of *v1alpha1.RevokedCertificate, records Records, add func(*inventoryv1alpha1.IssuedCertificate, []byte)) error {
	field, values, der := inventoryv1alpha1.FingerprintField, []string{strings.ToLower(of.Fingerprint)}, []byte(nil)
	switch {
	case of.PEM != "":
		cert, err := pki.ParseOneCertificate([]byte(of.PEM))
		if err != nil {
			return nil // admission refuses it
		}
		values, der = []string{pki.Fingerprint(cert), pki.OtherFingerprint(cert)}, cert.Raw
	case of.SerialNumber != "":
		field, values = inventoryv1alpha1.SerialField, []string{strings.TrimLeft(strings.ToLower(of.SerialNumber), "0")}
	}
	isAdded := false
	for _, value := range values {
		if value == "" || isAdded {
			continue
		}
		err := records.Each(ctx, field, value, func(record *inventoryv1alpha1.IssuedCertificate) {
			if isAdded || of.AuthorityKeyID != "" && !strings.EqualFold(record.Certificate.AuthorityKeyID, of.AuthorityKeyID) {
				return
			}
			if record.Certificate.Fingerprint != values[0] {
				der = nil // somebody has rewritten what is given
			}
			isAdded = true
			add(record, der)
		})
		if err != nil {
			return err
		}
	}
	return nil
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
		err := r.Records.Each(ctx, inventoryv1alpha1.SignerField, certmanager.SignerOf(issuer).String(), func(record *inventoryv1alpha1.IssuedCertificate) {
			if by := record.Revocation; by != nil && by.Name == object.Name {
				add(record)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// requests replaces the inventory in a cluster: it finds the issuer of a certificate through the
// existing requests, by fingerprint.
type requests map[string]*inventoryv1alpha1.IssuedCertificate

// requests reads the requests of a cluster.
func (r *reconciler) requests(ctx context.Context) (requests, error) {
	crs, csrs := &cmv1.CertificateRequestList{}, &certificatesv1.CertificateSigningRequestList{}
	if err := errors.Join(r.cache.List(ctx, crs), r.cache.List(ctx, csrs)); err != nil {
		return nil, fmt.Errorf("listing the requests: %w", err)
	}
	all := requests{}
	add := func(bundle []byte, signer string, of inventoryv1alpha1.RequestFacts) {
		if cert, err := pki.ParseFirst(bundle); err == nil {
			facts := inventoryv1alpha1.CertificateFacts{SerialNumber: cert.SerialNumber.Text(16), Fingerprint: pki.Fingerprint(cert)}
			all[facts.Fingerprint] = &inventoryv1alpha1.IssuedCertificate{SignerName: signer, Request: of, Certificate: facts}
		}
	}
	for _, cr := range crs.Items {
		add(cr.Status.Certificate, certmanager.SignerText(&cr), inventoryv1alpha1.RequestFacts{Kind: cmv1.CertificateRequestKind, Namespace: cr.Namespace, Name: cr.Name})
	}
	for _, csr := range csrs.Items {
		add(csr.Status.Certificate, csr.Spec.SignerName, inventoryv1alpha1.RequestFacts{Name: csr.Name})
	}
	return all, nil
}

// Revoked implements Records.
func (requests) Revoked() *revocation.Index { return nil }

// Each implements Records. It knows fingerprints only.
func (r requests) Each(_ context.Context, _, value string, found func(*inventoryv1alpha1.IssuedCertificate)) error {
	if record := r[value]; record != nil {
		found(record)
	}
	return nil
}
