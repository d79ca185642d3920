package certpolicy_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// The kinds of requests, in short.
const (
	csrs = v1alpha1.CertificateSigningRequests
	pcrs = v1alpha1.PodCertificateRequests
	crs  = v1alpha1.CertificateRequests
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// The identifiers of attributes and names that have no field of their own.
var (
	oidUID     = asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}
	oidMail    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}
	oidUPN     = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3}
	oidStrange = asn1.ObjectIdentifier{1, 2, 3}
)

// asked is a request in short. What is not given is ordinary: an ECDSA key, one
// DNS name, the usages of a server, a day. The bytes are real.
type asked struct {
	kind            v1alpha1.RequestKind
	name, namespace string
	// signer is the signer, or NAME, NAMESPACE/NAME of an issuer for a
	// CertificateRequest.
	signer              string
	issuer              *cmmeta.IssuerReference
	user, userUID       string
	groups              []string
	extra               map[string][]string
	labels, annotations map[string]string
	created             time.Time

	// subject has one relative distinguished name for each attribute.
	subject              pkix.RDNSequence
	rawSubject           []byte
	dns, ips, uris, mail []string
	others               []pki.OtherName
	// san is the value of the extension, in place of the names.
	san        []byte
	extensions []pkix.Extension
	// inside are usages in the PKCS#10 request.
	inside      *pki.Usages
	ca          *pki.BasicConstraints
	constraints *pki.NameConstraints
	key         pki.KeyType
	// der and pem change the bytes.
	der, pem func([]byte) []byte

	usages   []string
	isCA     bool
	duration time.Duration
	noLife   bool
	// pod's annotations, and whether its objects are not known yet.
	podAnnotations map[string]string
	podLabels      map[string]string
	podUnknown     bool
	// bare: the request has only a key, as those of Kubernetes 1.35.
	bare     bool
	services []string

	origin *v1alpha1.RequestOrigin
	// namespaceLabels are those of the namespace; namespaceUnknown: the cache
	// has not seen it.
	namespaceLabels  map[string]string
	namespaceUnknown bool
	node             *corev1.Node
	nodeUnknown      bool
	owner            *metav1.ObjectMeta
	ownerUnknown     bool
	originUnknown    bool
	access           map[certpolicy.Access]bool
	// stored are the requests with the same key or of the same owner.
	stored      v1alpha1.StoredKeys
	keysUnknown bool
	// earlier are those that it may renew.
	earlier        []v1alpha1.EarlierRequest
	earlierUnknown bool

	foreign  bool
	stage    v1alpha1.DecisionStage
	at       time.Time
	patience time.Duration
	votes    []quorum.Vote
	// sealsUnknown: nobody knows whether approvals verify.
	sealsUnknown bool
	certificate  *x509.Certificate
	// used says how much is used of quotas, by their names. Nothing is used of
	// others.
	used          map[string]certpolicy.QuotaUse
	quotasUnknown bool
}

// of returns an ordinary request of a kind.
func of(kind v1alpha1.RequestKind) asked {
	a := asked{
		kind: kind, name: "web-7", signer: "example.com/web", user: "alice", userUID: "u-alice", groups: []string{"team-shop", "system:authenticated"},
		dns: []string{"www.shop.example.com"}, usages: []string{"digital signature", "server auth"}, duration: 24 * time.Hour,
		key: pki.ECDSAP256, created: now.Add(-time.Minute), at: now, stage: v1alpha1.StageCheck, patience: 2 * time.Minute,
		origin: new(v1alpha1.OriginDirect), namespaceLabels: map[string]string{"team": "shop"},
	}
	switch kind {
	case crs:
		a.namespace, a.signer = "shop", "internal"
	case pcrs:
		a.namespace, a.podLabels = "shop", map[string]string{"app": "web"}
		a.usages = nil
	}
	return a
}

// but returns a copy with a change.
func (a asked) but(changes ...func(*asked)) asked {
	for _, change := range changes {
		if change != nil {
			change(&a)
		}
	}
	return a
}

// input makes the object of the API with its PKCS#10 request, and reads it as
// the program does.
func (a asked) input(t testing.TB) certpolicy.Input {
	t.Helper()
	in := certpolicy.Input{
		Stage: a.stage, Request: a.request(t), Time: a.at, Patience: a.patience, Certificate: a.certificate, Votes: a.votes, SealsUnknown: a.sealsUnknown,
		Facts: certpolicy.Facts{Origin: certpolicy.Known(a.origin), Access: a.access},
	}
	if a.originUnknown {
		in.Facts.Origin = certpolicy.Fact[v1alpha1.RequestOrigin]{}
	}
	if namespace := a.memberOf(&in.Request); namespace != "" && !a.namespaceUnknown {
		in.Facts.Namespace = certpolicy.Known(&metav1.ObjectMeta{Name: namespace, Labels: a.namespaceLabels})
	}
	if !a.nodeUnknown {
		in.Facts.Node = certpolicy.Known(a.node)
	}
	if !a.ownerUnknown {
		in.Facts.Owner = certpolicy.Known(a.owner)
	}
	if !a.keysUnknown {
		in.Facts.Keys = certpolicy.Known(&a.stored)
	}
	if !a.earlierUnknown {
		in.Facts.Earlier = certpolicy.Known(&v1alpha1.EarlierRequests{Requests: a.earlier})
	}
	signedByUs(&in, !a.foreign)
	return in
}

// signedByUs says whether the signer is of this program.
func signedByUs(in *certpolicy.Input, ours bool) {
	in.Facts.Signer = certpolicy.Known(&certpolicy.Signer{Ours: ours})
}

// memberOf returns the namespace of the request, or that of the service account
// that makes it.
func (a asked) memberOf(r *request.Request) string {
	if account, isAccount := serviceAccountOf(r.Who().Username); r.Namespace == "" && isAccount {
		return account
	}
	return r.Namespace
}

func (a asked) request(t testing.TB) request.Request {
	t.Helper()
	meta := metav1.ObjectMeta{
		Name: a.name, Namespace: a.namespace, UID: types.UID("uid-" + a.name), Labels: a.labels, Annotations: a.annotations,
		CreationTimestamp: metav1.NewTime(a.created),
	}
	switch a.kind {
	case csrs:
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: meta, Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: a.encoded(t), SignerName: a.signer, Username: a.user, UID: a.userUID, Groups: a.groups, ExpirationSeconds: a.seconds(),
		}}
		for key, values := range a.extra {
			if csr.Spec.Extra == nil {
				csr.Spec.Extra = map[string]certificatesv1.ExtraValue{}
			}
			csr.Spec.Extra[key] = values
		}
		for _, usage := range a.usages {
			csr.Spec.Usages = append(csr.Spec.Usages, certificatesv1.KeyUsage(usage))
		}
		return request.FromCSR(csr)
	case crs:
		cr := &cmv1.CertificateRequest{ObjectMeta: meta, Spec: cmv1.CertificateRequestSpec{
			Request: a.encoded(t), IssuerRef: cmmeta.IssuerReference{Name: a.signer, Kind: "ClusterIssuer"}, IsCA: a.isCA,
			Username: a.user, UID: a.userUID, Groups: a.groups, Extra: a.extra,
		}}
		if a.issuer != nil {
			cr.Spec.IssuerRef = *a.issuer
		}
		if !a.noLife {
			cr.Spec.Duration = &metav1.Duration{Duration: a.duration}
		}
		for _, usage := range a.usages {
			cr.Spec.Usages = append(cr.Spec.Usages, cmv1.KeyUsage(usage))
		}
		return request.FromCertificateRequest(cr)
	}
	return a.podRequest(t, meta)
}

func (a asked) podRequest(t testing.TB, meta metav1.ObjectMeta) request.Request {
	t.Helper()
	spec := certificatesv1beta1.PodCertificateRequestSpec{
		SignerName: a.signer, PodName: "web-0", PodUID: "p1", ServiceAccountName: "web", ServiceAccountUID: "s1", NodeName: "n1", NodeUID: "n1",
		MaxExpirationSeconds: a.seconds(), UnverifiedUserAnnotations: a.podAnnotations,
	}
	if a.bare {
		key, err := x509.MarshalPKIXPublicKey(keyOf(a.key).Public())
		if err != nil {
			t.Fatal(err)
		}
		//lint:ignore SA1019 kubelets of Kubernetes 1.35 have no other form
		spec.PKIXPublicKey = key
	} else {
		spec.StubPKCS10Request = a.raw(t)
	}
	r := request.FromPodRequest(&certificatesv1beta1.PodCertificateRequest{ObjectMeta: meta, Spec: spec})
	if a.podUnknown {
		return r
	}
	r.Pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: a.namespace, UID: "p1", Labels: a.podLabels}}
	r.ServiceAccount = &metav1.ObjectMeta{Name: "web", Namespace: a.namespace, UID: "s1"}
	r.Node = &metav1.ObjectMeta{Name: "n1", UID: "n1"}
	for _, service := range a.services {
		r.Services = append(r.Services, request.ServiceName{Name: service, Namespace: a.namespace})
	}
	return r
}

func (a asked) seconds() *int32 {
	if a.noLife {
		return nil
	}
	return new(int32(a.duration / time.Second))
}

// encoded returns the PKCS#10 request in PEM.
func (a asked) encoded(t testing.TB) []byte {
	t.Helper()
	data := pki.EncodeRequest(&x509.CertificateRequest{Raw: a.raw(t)})
	if a.pem != nil {
		data = a.pem(data)
	}
	return data
}

// raw returns the PKCS#10 request in DER.
func (a asked) raw(t testing.TB) []byte {
	t.Helper()
	template := &x509.CertificateRequest{RawSubject: a.rawSubject, DNSNames: a.dns, EmailAddresses: a.mail, ExtraExtensions: a.extensions}
	if template.RawSubject == nil {
		template.RawSubject = marshal(t, a.subject)
	}
	for _, ip := range a.ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	for _, text := range a.uris {
		uri, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, uri)
	}
	a.extend(t, template)
	der, err := x509.CreateCertificateRequest(rand.Reader, template, keyOf(a.key))
	if err != nil {
		t.Fatal(err)
	}
	if a.der != nil {
		der = a.der(der)
	}
	return der
}

// extend adds the extensions that the standard library does not make.
func (a asked) extend(t testing.TB, template *x509.CertificateRequest) {
	t.Helper()
	switch {
	case a.san != nil:
		template.DNSNames, template.IPAddresses, template.URIs, template.EmailAddresses = nil, nil, nil, nil
		template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: pki.OIDSubjectAltName, Value: a.san})
	case len(a.others) > 0:
		names := pki.AltNames{DNSNames: a.dns, IPAddresses: template.IPAddresses, URIs: template.URIs, EmailAddresses: a.mail, OtherNames: a.others}
		template.DNSNames, template.IPAddresses, template.URIs, template.EmailAddresses = nil, nil, nil, nil
		template.ExtraExtensions = append(template.ExtraExtensions, extensionsOf(t, pki.Content{Names: names})...)
	}
	if a.inside != nil || a.constraints != nil {
		template.ExtraExtensions = append(template.ExtraExtensions, extensionsOf(t, pki.Content{Usages: a.inside, Constraints: a.constraints})...)
	}
	if a.ca != nil {
		template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: pki.OIDBasicConstraints, Critical: true, Value: marshal(t, *a.ca)})
	}
}

// extensionsOf returns the extensions that certplane makes for content.
func extensionsOf(t testing.TB, content pki.Content) []pkix.Extension {
	t.Helper()
	data, err := content.Request(keyOf(pki.ECDSAP256))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := pki.ParseRequest(data)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Extensions
}

func marshal(t testing.TB, value any) []byte {
	t.Helper()
	der, err := asn1.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// rdn returns a subject with one attribute in each relative distinguished name.
func rdn(pairs ...string) pkix.RDNSequence {
	var sequence pkix.RDNSequence
	for i := 0; i < len(pairs); i += 2 {
		sequence = append(sequence, pkix.RelativeDistinguishedNameSET{{Type: attributeTypes[pairs[i]], Value: pairs[i+1]}})
	}
	return sequence
}

var attributeTypes = map[string]asn1.ObjectIdentifier{
	"CN": {2, 5, 4, 3}, "serialNumber": {2, 5, 4, 5}, "O": {2, 5, 4, 10}, "OU": {2, 5, 4, 11}, "C": {2, 5, 4, 6}, "L": {2, 5, 4, 7},
	"ST": {2, 5, 4, 8}, "street": {2, 5, 4, 9}, "postalCode": {2, 5, 4, 17}, "UID": oidUID, "emailAddress": oidMail,
}

var keys = struct {
	sync.Mutex
	made map[pki.KeyType]crypto.Signer
}{made: map[pki.KeyType]crypto.Signer{}}

// keyOf returns the key of a type that all requests of these tests share.
func keyOf(t pki.KeyType) crypto.Signer {
	keys.Lock()
	defer keys.Unlock()
	if key := keys.made[t]; key != nil {
		return key
	}
	key, err := pki.GenerateKey(t)
	if err != nil {
		panic(err)
	}
	keys.made[t] = key
	return key
}

func strangeExtension() []pkix.Extension {
	return []pkix.Extension{{Id: oidStrange, Value: []byte{5, 0}}}
}
