// Package acmetest has the objects around orders of the ACME server for tests with
// the real server, written as the server's front end writes them.
package acmetest

import (
	"crypto"
	"crypto/rand"
	"encoding/base32"
	"encoding/pem"
	"net"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// ServiceAccount is the name of the ServiceAccount that accounts act as.
const ServiceAccount = "web"

// World is a namespace with its own ServiceAccount, signer, endpoint, external key and
// account. All have the name Namespace.
type World struct {
	testing.TB
	Server *apitest.Server
	// Objects acts as an administrator.
	Objects client.Client
	// Namespace is also the name of all objects.
	Namespace  string
	SignerName string
	Endpoint   *v1alpha1.AcmeEndpoint
	Key        *v1alpha1.AcmeExternalKey
	Account    *v1alpha1.AcmeAccount
}

// Option changes the endpoint or the key before they are stored.
type Option func(*v1alpha1.AcmeEndpoint, *v1alpha1.AcmeExternalKey)

// New makes a world in a server. The ServiceAccount may use the endpoint and make
// requests, and the server may act as it; AutoApprove lets its requests be approved.
// Names below NAME.example are preauthorized.
func New(t testing.TB, server *apitest.Server, options ...Option) *World {
	t.Helper()
	w := &World{TB: t, Server: server, Namespace: "w" + strings.ToLower(rand.Text()[:10])}
	w.Connect()
	w.SignerName = w.Namespace + ".example/hosts"
	w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}})
	w.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: ServiceAccount}})
	w.Allow("tokens", rights.ServeACMEOrders.Account, rights.ServeNamespace, rights.ACMEConsent(ServiceAccount)[rights.ServeACMEOrders.Account]...)
	w.AllowEverywhere("use", rbacv1.PolicyRule{Verbs: []string{rights.ACMEUse}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"acmeendpoints"}, ResourceNames: []string{w.Namespace}},
		rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}},
		rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{certmanager.Group}, Resources: []string{"certificaterequests"}})
	w.makeSigner()
	w.makeEndpoint(options)
	return w
}

// Connect makes the client of the administrator, for the server as it runs now.
func (w *World) Connect() {
	w.Helper()
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, certmanager.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			w.Fatal(err)
		}
	}
	var err error
	if w.Objects, err = client.New(w.Server.Admin(w), client.Options{Scheme: kinds}); err != nil {
		w.Fatal(err)
	}
}

func (w *World) makeSigner() {
	apitest.Eventually(w, "Signers are served", func() bool { return w.Objects.List(w.Context(), &v1alpha1.SignerList{}) == nil })
	w.Create(&v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Spec: v1alpha1.SignerSpec{
		SignerName: w.SignerName, Requests: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests},
		CA: v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}},
		Profile: v1alpha1.SignerProfile{
			Names:    v1alpha1.NamesProfile{DNSNames: "request.dnsNames", IPAddresses: "request.ipAddresses"},
			Usages:   []string{"digital signature", "key encipherment", "server auth"},
			Lifetime: v1alpha1.LifetimeProfile{Maximum: &metav1.Duration{Duration: 24 * time.Hour}},
		},
	}})
	apitest.Eventually(w, "the signer is ready", func() bool {
		s := &v1alpha1.Signer{}
		return w.Objects.Get(w.Context(), client.ObjectKey{Name: w.Namespace}, s) == nil && isTrue(s.Status.Conditions, v1alpha1.Ready)
	})
}

func isTrue(conditions []metav1.Condition, kind string) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}

func (w *World) makeEndpoint(options []Option) {
	w.Endpoint = &v1alpha1.AcmeEndpoint{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}, Spec: v1alpha1.AcmeEndpointSpec{
		Accounts:    v1alpha1.AcmeAccounts{Admission: v1alpha1.AcmeAdmissionExternalKey},
		Identifiers: v1alpha1.AcmeIdentifiers{DNS: &v1alpha1.AcmeDNSNames{Allow: []string{"*." + w.Namespace + ".example"}}},
		Profiles:    []v1alpha1.AcmeProfile{{Name: "server", Signer: &v1alpha1.AcmeSigner{Name: w.SignerName}, Lifetime: hours(12)}},
		Challenges:  v1alpha1.AcmeChallenges{Types: []string{rfc8555.ChallengeHTTP01, rfc8555.ChallengeDNS01, rfc8555.ChallengeTLSALPN01}},
	}}
	w.Key = &v1alpha1.AcmeExternalKey{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "fleet"}, Spec: v1alpha1.AcmeExternalKeySpec{
		Endpoint: w.Namespace, ServiceAccount: ServiceAccount, Secret: v1alpha1.AcmeSecret{Name: "fleet"},
		Preauthorized: &v1alpha1.AcmePreauthorized{DNS: []string{"*.pre." + w.Namespace + ".example"}},
	}}
	setDefaults(&w.Endpoint.Spec)
	for _, option := range options {
		option(w.Endpoint, w.Key)
	}
	w.Create(w.Endpoint)
	w.Create(w.Key)
	w.Account = w.NewAccount()
}

// setDefaults sets the periods, which Go writes even if they are not set.
func setDefaults(e *v1alpha1.AcmeEndpointSpec) {
	const day = 24 * time.Hour
	for field, value := range map[*metav1.Duration]time.Duration{
		&e.Approval.FinalizeWait: 5 * time.Second, &e.Challenges.Attempts.Interval: time.Second, &e.Challenges.Attempts.Timeout: 5 * time.Second,
		&e.Orders.PendingFor: day, &e.Orders.ProcessingFor: 7 * day, &e.Orders.AuthorizationValidFor: day, &e.Orders.ChainFor: 7 * day,
		&e.Renewal.RetryAfter: 6 * time.Hour,
	} {
		field.Duration = value
	}
}

func hours(n time.Duration) v1alpha1.AcmeLifetime {
	d := metav1.Duration{Duration: n * time.Hour}
	return v1alpha1.AcmeLifetime{Default: d, Maximum: d}
}

// NewAccount stores an account that is bound to the external key.
func (w *World) NewAccount() *v1alpha1.AcmeAccount {
	w.Helper()
	a := &v1alpha1.AcmeAccount{ObjectMeta: metav1.ObjectMeta{Name: ID(), Labels: map[string]string{v1alpha1.AcmeEndpointLabel: w.Namespace}}, Spec: v1alpha1.AcmeAccountSpec{
		Endpoint: w.Namespace, ServiceAccount: v1alpha1.AcmeServiceAccount{Namespace: w.Namespace, Name: ServiceAccount},
		ExternalKey: &v1alpha1.AcmeExternalKeyReference{Namespace: w.Namespace, Name: w.Key.Name, UID: w.Key.UID},
	}}
	w.Create(a)
	a.Status.State = v1alpha1.AcmeAccountValid
	w.UpdateStatus(a)
	return a
}

// ID returns a random name as accounts and orders have it.
func ID() string {
	raw := make([]byte, 17)
	rand.Read(raw)
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw))[:26]
}

// Preauthorized returns a name that the external key proves.
func (w *World) Preauthorized(host string) string { return host + ".pre." + w.Namespace + ".example" }

// AutoApprove lets requests of the ServiceAccount be approved without a person.
func (w *World) AutoApprove() {
	w.Helper()
	w.AllowEverywhere("autoapprove", rbacv1.PolicyRule{
		Verbs: []string{rights.ACMEAutoApprove}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"acmeendpoints"}, ResourceNames: []string{w.Namespace},
	})
}

// Allow lets a ServiceAccount do something in the namespace.
func (w *World) Allow(what, account, namespace string, rules ...rbacv1.PolicyRule) {
	w.Helper()
	name := metav1.ObjectMeta{Namespace: w.Namespace, Name: what}
	w.Create(&rbacv1.Role{ObjectMeta: name, Rules: rules})
	w.Create(&rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: what},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account}},
	})
}

// AllowEverywhere lets the ServiceAccount do something in the cluster, and returns
// when the server knows.
func (w *World) AllowEverywhere(what string, rules ...rbacv1.PolicyRule) {
	w.Helper()
	marker := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"marker-" + what}}
	name := metav1.ObjectMeta{Name: w.Namespace + "-" + what}
	w.Create(&rbacv1.ClusterRole{ObjectMeta: name, Rules: append(rules, marker)})
	w.Create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: w.Namespace, Name: ServiceAccount}},
	})
	who := request.ServiceAccount(w.Namespace, ServiceAccount)
	apitest.Eventually(w, "the server knows that "+who.Username+" may "+what, func() bool {
		return w.Server.Allowed(w, who.Username, who.Groups, authorizationv1.ResourceAttributes{Verb: "get", Group: v1alpha1.GroupName, Resource: marker.Resources[0]})
	})
}

// Create stores an object.
func (w *World) Create(o client.Object) {
	w.Helper()
	if err := w.Objects.Create(w.Context(), o); err != nil {
		w.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
}

// UpdateStatus stores the status of an object.
func (w *World) UpdateStatus(o client.Object) {
	w.Helper()
	if err := w.Objects.Status().Update(w.Context(), o); err != nil {
		w.Fatalf("updating the status of %T %s: %v", o, o.GetName(), err)
	}
}

// Order stores an order of the account for names.
func (w *World) Order(names ...string) *v1alpha1.AcmeOrder {
	w.Helper()
	return w.OrderOf(w.Account, names...)
}

// OrderOf stores an order of an account for names and addresses.
func (w *World) OrderOf(account *v1alpha1.AcmeAccount, names ...string) *v1alpha1.AcmeOrder {
	w.Helper()
	endpoint, errs := acmeorder.Compile(w.Endpoint)
	if len(errs) > 0 {
		w.Fatal(errs.ToAggregate())
	}
	key, errs := acmeorder.CompileKey(w.Key)
	if len(errs) > 0 {
		w.Fatal(errs.ToAggregate())
	}
	asked := acmeorder.NewOrder{}
	for _, name := range names {
		id := rfc8555.Identifier{Type: rfc8555.IdentifierDNS, Value: name}
		if net.ParseIP(name) != nil {
			id.Type = rfc8555.IdentifierIP
		}
		asked.Identifiers = append(asked.Identifiers, id)
	}
	admitted, problem := endpoint.AdmitOrder(asked, acmeorder.OrderFacts{AccountFacts: acmeorder.AccountFacts{Account: account, ExternalKey: key}}, time.Now())
	if problem != nil {
		w.Fatalf("the order is refused: %+v", problem)
	}
	o := admitted.Build(ID(), rand.Text(), time.Now())
	status := o.Status
	w.Create(o)
	o.Status = status
	w.UpdateStatus(o)
	return o
}

// Finalize stores the certificate request of an order that is ready, for its names.
func (w *World) Finalize(o *v1alpha1.AcmeOrder) crypto.Signer {
	w.Helper()
	key := apitest.NewKey(w)
	var subject pki.Subject
	for _, id := range o.Spec.Identifiers {
		if id.Type == rfc8555.IdentifierIP {
			subject.IPAddresses = append(subject.IPAddresses, net.ParseIP(id.Value))
		} else {
			subject.DNSNames = append(subject.DNSNames, id.Value)
		}
	}
	text, err := pki.NewRequest(subject, key)
	if err != nil {
		w.Fatal(err)
	}
	block, _ := pem.Decode(text)
	w.FinalizeWith(o, block.Bytes)
	return key
}

// FinalizeWith stores a certificate request of an order that is ready.
func (w *World) FinalizeWith(o *v1alpha1.AcmeOrder, csr []byte) {
	w.Helper()
	profile := v1alpha1.AcmeProfile{Signer: &v1alpha1.AcmeSigner{Name: w.SignerName}} // it may be gone by now
	for _, p := range w.Endpoint.Spec.Profiles {
		if p.Name == o.Spec.Profile {
			profile = p
		}
	}
	status := acmeorder.Finalize(o, csr, acmeorder.Reference(o, &profile), 168*time.Hour, time.Now())
	if status == nil {
		w.Fatalf("the order is not ready: %+v", o.Status)
	}
	o.Status = *status
	w.UpdateStatus(o)
}

// Ended waits until an order is valid or invalid, and returns it.
func (w *World) Ended(o *v1alpha1.AcmeOrder) *v1alpha1.AcmeOrder {
	w.Helper()
	return w.Until(o, "has ended", func(o *v1alpha1.AcmeOrder) bool {
		return o.Status.State == v1alpha1.AcmeOrderValid || o.Status.State == v1alpha1.AcmeOrderInvalid
	})
}

// Until waits until something holds for an order, and returns it.
func (w *World) Until(o *v1alpha1.AcmeOrder, what string, holds func(*v1alpha1.AcmeOrder) bool) *v1alpha1.AcmeOrder {
	w.Helper()
	now := &v1alpha1.AcmeOrder{}
	apitest.Eventually(w, "the order "+what, func() bool {
		if err := w.Objects.Get(w.Context(), client.ObjectKeyFromObject(o), now); err != nil {
			w.Fatal(err)
		}
		return holds(now)
	})
	return now
}

// Gone waits until an object does not exist.
func (w *World) Gone(o client.Object, uid types.UID) {
	w.Helper()
	apitest.Eventually(w, o.GetName()+" is gone", func() bool {
		err := w.Objects.Get(w.Context(), client.ObjectKeyFromObject(o), o)
		return apierrors.IsNotFound(err) || err == nil && o.GetUID() != uid
	})
}

// Disallow removes a right that Allow or AllowEverywhere has granted, and returns when the
// server denies it to a user.
func (w *World) Disallow(binding client.Object, user request.Requester, what authorizationv1.ResourceAttributes) {
	w.Helper()
	if err := w.Objects.Delete(w.Context(), binding); err != nil {
		w.Fatal(err)
	}
	apitest.Eventually(w, "the server knows that "+user.Username+" may not "+what.Verb+" "+what.Resource, func() bool {
		return !w.Server.Allowed(w, user.Username, user.Groups, what)
	})
}

// Change reads an object, changes it and updates it, again after conflicts.
func (w *World) Change(o client.Object, change func()) {
	w.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := w.Objects.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change()
		return w.Objects.Update(w.Context(), o)
	})
	if err != nil {
		w.Fatalf("changing %T %s: %v", o, o.GetName(), err)
	}
}
