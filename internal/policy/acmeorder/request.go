package acmeorder

import (
	"bytes"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// The shortest lifetimes of requests: the API sets the one of CertificateSigningRequests,
// certplane the one of CertificateRequests.
const (
	minSignerLifetime = 10 * time.Minute
	minIssuerLifetime = time.Minute
)

func shortest(profile *v1alpha1.AcmeProfile) time.Duration {
	if profile.Signer != nil {
		return minSignerLifetime
	}
	return minIssuerLifetime
}

// Lifetime returns the lifetime that the request of an order asks for now. It is a
// problem if the end that the client asked for has come too near.
func Lifetime(o *order, profile *v1alpha1.AcmeProfile, now time.Time) (time.Duration, *rfc8555.Problem) {
	lifetime := profile.Lifetime.Default.Duration
	if o.Spec.NotAfter != nil {
		lifetime = o.Spec.NotAfter.Sub(now).Truncate(time.Second)
		if lifetime < shortest(profile) {
			return 0, rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "notAfter is too near by now: certificates are valid for at least %s", hours(shortest(profile)))
		}
	}
	return max(shortest(profile), min(lifetime, profile.Lifetime.Maximum.Duration)), nil
}

// RequestName returns the name of the request of an order. It is always the same,
// so that an order never has two.
func RequestName(o *order) string { return certmanager.OrderRequestPrefix + o.Name }

// Reference returns the reference to the request that will be made for an order.
func Reference(o *order, profile *v1alpha1.AcmeProfile) v1alpha1.AcmeRequestReference {
	if profile.Signer != nil {
		return v1alpha1.AcmeRequestReference{
			APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: string(v1alpha1.CertificateSigningRequests), Name: RequestName(o),
		}
	}
	return v1alpha1.AcmeRequestReference{
		APIVersion: cmv1.SchemeGroupVersion.String(), Kind: cmv1.CertificateRequestKind, Namespace: o.Namespace, Name: RequestName(o),
	}
}

// requestMeta returns the metadata of the request. Labels and annotations are for
// people.
func requestMeta(o *order, account *v1alpha1.AcmeAccount) metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Name:   RequestName(o),
		Labels: map[string]string{v1alpha1.AcmeEndpointLabel: o.Spec.Endpoint, v1alpha1.AcmeAccountLabel: o.Spec.Account, v1alpha1.AcmeOrderLabel: o.Name},
		Annotations: map[string]string{
			v1alpha1.AcmeOrderAnnotation:       o.Namespace + "/" + o.Name,
			v1alpha1.AcmeIdentifiersAnnotation: identifierList(o.Spec.Identifiers),
		},
	}
	if o.Spec.Address != "" {
		m.Annotations[v1alpha1.AcmeAddressAnnotation] = o.Spec.Address
	}
	if key := account.Spec.ExternalKey; key != nil {
		m.Annotations[v1alpha1.AcmeExternalKeyAnnotation] = key.Namespace + "/" + key.Name
	}
	return m
}

func identifierList(ids []v1alpha1.AcmeIdentifier) string {
	var values []string
	for _, id := range ids {
		values = append(values, id.Value)
	}
	return strings.Join(values, ",")
}

// usages returns the usages of the profile. Key encipherment is for RSA keys alone (RFC
// 8551 section 2.3, RFC 5480 section 3).
func usages(profile *v1alpha1.AcmeProfile, csr []byte) ([]string, error) {
	parsed, err := pki.ParseRequestDER(csr)
	if err != nil {
		return nil, fmt.Errorf("parsing the order's certificate request: %w", err)
	}
	list := slices.Clone(profile.Usages)
	if _, isRSA := parsed.PublicKey.(*rsa.PublicKey); !isRSA {
		list = slices.DeleteFunc(list, func(u string) bool { return u == "key encipherment" })
	}
	return list, nil
}

func usagesAs[U ~string](names []string) []U {
	var list []U
	for _, name := range names {
		list = append(list, U(name))
	}
	return list
}

func requestPEM(o *order) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pki.RequestBlockType, Bytes: o.Status.CSR})
}

// SigningRequest returns the CertificateSigningRequest for an order whose profile
// has a signer.
func SigningRequest(o *order, account *v1alpha1.AcmeAccount, profile *v1alpha1.AcmeProfile, lifetime time.Duration) (*certificatesv1.CertificateSigningRequest, error) {
	if profile.Signer == nil {
		return nil, fmt.Errorf("the profile %s has no signer", profile.Name)
	}
	list, err := usages(profile, o.Status.CSR)
	if err != nil {
		return nil, err
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: requestMeta(o, account),
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: requestPEM(o), SignerName: profile.Signer.Name, Usages: usagesAs[certificatesv1.KeyUsage](list),
			ExpirationSeconds: new(int32(lifetime / time.Second)),
		},
	}, nil
}

// CertificateRequest returns the CertificateRequest for an order whose profile has
// an issuer, owned by the order.
func CertificateRequest(o *order, account *v1alpha1.AcmeAccount, profile *v1alpha1.AcmeProfile, lifetime time.Duration) (*cmv1.CertificateRequest, error) {
	if profile.Issuer == nil {
		return nil, fmt.Errorf("the profile %s has no issuer", profile.Name)
	}
	list, err := usages(profile, o.Status.CSR)
	if err != nil {
		return nil, err
	}
	cr := &cmv1.CertificateRequest{
		ObjectMeta: requestMeta(o, account),
		Spec: cmv1.CertificateRequestSpec{
			Request: requestPEM(o), Usages: usagesAs[cmv1.KeyUsage](list), Duration: &metav1.Duration{Duration: lifetime},
			IssuerRef: cmmeta.IssuerReference{Group: profile.Issuer.Group, Kind: profile.Issuer.Kind, Name: profile.Issuer.Name},
		},
	}
	cr.Namespace = o.Namespace
	cr.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "AcmeOrder", Name: o.Name, UID: o.UID, Controller: new(true),
	}}
	return cr, nil
}

// CheckRequest returns an error if a stored request is not the one that was made for an
// order. It compares the content and does not trust labels and annotations.
// serviceAccountUID is the UID of the account's ServiceAccount, empty if it is not known.
func CheckRequest(o *order, account *v1alpha1.AcmeAccount, profile *v1alpha1.AcmeProfile, stored request.Request, serviceAccountUID string) error {
	if err := checkContent(o, account, stored, serviceAccountUID); err != nil {
		return err
	}
	list, err := usages(profile, o.Status.CSR)
	duration := stored.Duration
	if terms, refused := stored.Terms(); refused == nil && stored.Issuer != nil {
		duration = terms.Duration // an annotation can ask an issuer for a longer one
	} else if err == nil {
		err = refused
	}
	switch {
	case err != nil:
		return err
	case !slices.Equal(slices.Sorted(slices.Values(list)), slices.Sorted(slices.Values(stored.Usages))):
		return errors.New("its usages differ from the profile's")
	case duration == nil || *duration > max(shortest(profile), profile.Lifetime.Maximum.Duration):
		return errors.New("its lifetime is longer than the profile's")
	}
	return checkBackend(o, profile, stored)
}

// checkContent reports why a stored request is not of the account, or has not the
// certificate request of the order.
func checkContent(o *order, account *v1alpha1.AcmeAccount, stored request.Request, serviceAccountUID string) error {
	who := request.ServiceAccount(account.Spec.ServiceAccount.Namespace, account.Spec.ServiceAccount.Name).Username
	block, rest := pem.Decode(stored.PEM)
	switch {
	case stored.Requester.Username != who:
		return fmt.Errorf("its requester is not %s", who)
	case serviceAccountUID != "" && stored.Requester.UID != serviceAccountUID:
		return fmt.Errorf("its requester is an earlier %s", who)
	case block == nil || block.Type != pki.RequestBlockType || len(bytes.TrimSpace(rest)) > 0 || !bytes.Equal(block.Bytes, o.Status.CSR):
		return errors.New("its certificate request differs from the order's")
	case stored.IsCA || stored.AsksForCA():
		return errors.New("it asks for the certificate of a CA")
	}
	return nil
}

func checkBackend(o *order, profile *v1alpha1.AcmeProfile, stored request.Request) error {
	switch {
	case profile.Signer != nil:
		if stored.Kind != v1alpha1.CertificateSigningRequests || stored.SignerName != profile.Signer.Name {
			return errors.New("its signer is not the profile's")
		}
	case stored.Kind != request.CertificateRequests || stored.Namespace != o.Namespace || stored.Issuer == nil ||
		stored.Issuer.Group != profile.Issuer.Group || stored.Issuer.Kind != profile.Issuer.Kind || stored.Issuer.Name != profile.Issuer.Name:
		return errors.New("its issuer is not the profile's")
	}
	return nil
}

// remakeFor is how long after its name was written a missing request is created: later,
// the request may have been answered and cleaned up. nameAgainAfter is when the name of a
// missing request is written again, so that it can still be created.
const (
	remakeFor      = 30 * time.Minute
	nameAgainAfter = 10 * time.Minute
)

// RequestStep is the next step for the request of an order.
type RequestStep int

const (
	// RequestNone: the order does not need one now.
	RequestNone RequestStep = iota
	// RequestToMake: the request has to be created or, if it exists, its UID recorded.
	RequestToMake
	// RequestMade: the request exists, and its conditions decide what is next.
	RequestMade
	// RequestLost: it is gone, or too much time has passed to make it.
	RequestLost
)

// NextRequestStep returns the next step. uid is the UID of the stored request with the
// name in the order, empty if there is none.
func NextRequestStep(o *order, uid string, now time.Time) RequestStep {
	r := o.Status.Request
	switch {
	case OrderState(o, now) != rfc8555.StateProcessing || r == nil:
		return RequestNone
	case r.UID != "" && string(r.UID) == uid:
		return RequestMade
	case r.UID != "":
		return RequestLost
	case uid == "" && r.Named != nil && !now.Before(r.Named.Add(remakeFor)):
		return RequestLost
	}
	return RequestToMake
}

// NameAgain records that the request of an order does not exist yet, for example because
// the API server has refused it for long. The caller must just have found no request in
// the API. The name was written so recently that no request can have been cleaned up
// since, so there never was one. NameAgain returns nil if nothing has to be recorded.
func NameAgain(o *order, now time.Time) *orderStatus {
	r := o.Status.Request
	if NextRequestStep(o, "", now) != RequestToMake || r.Named == nil || now.Before(r.Named.Add(nameAgainAfter)) {
		return nil
	}
	s := o.Status.DeepCopy()
	s.Request.Named = whole(now)
	return s
}

// LostRequest is the problem of an order whose request is gone.
func LostRequest() *rfc8555.Problem {
	return rfc8555.NewProblem(500, rfc8555.ProblemServerInternal, "the request was deleted or expired")
}
