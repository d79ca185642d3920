package policies_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/run/server"
)

type (
	csr       = certificatesv1.CertificateSigningRequest
	condition = certificatesv1.CertificateSigningRequestCondition
)

// voter is somebody who tries to approve requests, with a client of its own.
type voter struct {
	name   string
	groups []string
	// able: the approval can count.
	able   bool
	client kubernetes.Interface
	// overrides: the voter has the right to override policies, which counts if the
	// voter is able.
	overrides bool
}

// electorate is a server and the people who approve on it. All of them have the
// right to approve, and to write requests and their status.
type electorate struct {
	*fixture
	address atomic.Value // of the server, HOST:PORT
	// transports are those of all clients.
	transports []http.RoundTripper
}

func startElectorate(t *testing.T, options ...func(*server.Config)) *electorate {
	t.Helper()
	return electorateOf(start(t, options...))
}

func electorateOf(f *fixture) *electorate {
	f.Helper()
	e := &electorate{fixture: f}
	e.found()
	name := metav1.ObjectMeta{Name: "everybody-approves"}
	role := &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		apitest.Allow("create get update patch", "certificatesigningrequests certificatesigningrequests/approval certificatesigningrequests/status"),
		apitest.Allow("approve sign", "signers"),
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name.Name}}
	for _, group := range []string{"system:authenticated", "system:unauthenticated"} {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: "Group", Name: group})
	}
	e.create(role)
	e.create(binding)
	right := authorizationv1.ResourceAttributes{Verb: "approve", Group: certificatesv1.GroupName, Resource: "signers", Name: signerName}
	e.server.UntilAllowed(f, "anybody", []string{"system:authenticated"}, right)
	return e
}

// found notes where the server is.
func (e *electorate) found() {
	e.Helper()
	at, err := url.Parse(e.server.URL)
	if err != nil {
		e.Fatal(err)
	}
	e.address.Store(at.Host)
}

// restart restarts the server. The clients find it at its new address.
func (e *electorate) restart() {
	e.Helper()
	e.server.Restart(e.T)
	e.found()
	for _, transport := range e.transports {
		utilnet.CloseIdleConnectionsFor(transport)
	}
}

// client returns a client that survives restarts of the server.
func (e *electorate) client(cfg *rest.Config) kubernetes.Interface {
	e.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, e.address.Load().(string))
	}
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		e.Fatal(err)
	}
	e.transports = append(e.transports, httpClient.Transport)
	client, err := kubernetes.NewForConfigAndClient(cfg, httpClient)
	if err != nil {
		e.Fatal(err)
	}
	return client
}

// person returns somebody with a credential of its own.
func (e *electorate) person(able bool, name string, groups ...string) *voter {
	e.Helper()
	return &voter{name: name, groups: groups, able: able, client: e.client(e.server.Login(e.T, name, groups...))}
}

// others returns those whose approval never counts.
func (e *electorate) others() []*voter {
	e.Helper()
	if _, err := e.api.CoreV1().ServiceAccounts("default").Create(e.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	token, err := e.api.CoreV1().ServiceAccounts("default").CreateToken(e.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	robot := e.server.Anonymous(e.T)
	robot.BearerToken = token.Status.Token
	return []*voter{
		{name: "system:serviceaccount:default:robot", client: e.client(robot)},
		{name: "system:anonymous", client: e.client(e.server.Anonymous(e.T))},
		{name: "alice", groups: []string{"pki"}, client: e.client(e.server.As(e.T, "alice", "pki"))}, // impersonated
		{name: "carol", groups: []string{"security"}, client: e.client(e.server.As(e.T, "carol", "security"))},
		e.person(false, "system:node:n1", "system:nodes", "security"),
	}
}

// way is one of the ways to write a request. It sends the conditions in sent.
type way struct {
	name  string
	write writeFunc
}

// writeFunc writes a request and returns the answer.
type writeFunc func(ctx context.Context, by *voter, subresource string, sent *csr, options metav1.UpdateOptions) (*csr, error)

var ways = []way{
	{"put", put},
	{"put of any version", func(ctx context.Context, by *voter, subresource string, sent *csr, options metav1.UpdateOptions) (*csr, error) {
		sent = sent.DeepCopy()
		sent.ResourceVersion, sent.UID = "", ""
		return put(ctx, by, subresource, sent, options)
	}},
	{"merge patch", func(ctx context.Context, by *voter, subresource string, sent *csr, options metav1.UpdateOptions) (*csr, error) {
		return patch(ctx, by.client.CertificatesV1().RESTClient(), types.MergePatchType, subresource, sent.Name, withConditions(sent), options)
	}},
	{"merge patch of v1beta1", func(ctx context.Context, by *voter, subresource string, sent *csr, options metav1.UpdateOptions) (*csr, error) {
		return patch(ctx, by.client.CertificatesV1beta1().RESTClient(), types.MergePatchType, subresource, sent.Name, withConditions(sent), options)
	}},
	{"JSON patch", func(ctx context.Context, by *voter, subresource string, sent *csr, options metav1.UpdateOptions) (*csr, error) {
		operations := []any{map[string]any{"op": "add", "path": "/status", "value": withConditions(sent)["status"]}}
		return patch(ctx, by.client.CertificatesV1().RESTClient(), types.JSONPatchType, subresource, sent.Name, operations, options)
	}},
	{"apply", func(ctx context.Context, by *voter, subresource string, sent *csr, options metav1.UpdateOptions) (*csr, error) {
		// A type that is applied twice is an error 500, in kube-apiserver too.
		sent = sent.DeepCopy()
		slices.SortStableFunc(sent.Status.Conditions, func(a, b condition) int { return strings.Compare(string(a.Type), string(b.Type)) })
		sent.Status.Conditions = slices.CompactFunc(sent.Status.Conditions, func(a, b condition) bool { return a.Type == b.Type })
		object := withConditions(sent)
		object["apiVersion"], object["kind"], object["metadata"] = "certificates.k8s.io/v1", "CertificateSigningRequest", map[string]any{"name": sent.Name}
		options.FieldManager = "of-" + strings.ReplaceAll(by.name, ":", "-")
		return patch(ctx, by.client.CertificatesV1().RESTClient(), types.ApplyPatchType, subresource, sent.Name, object, options)
	}},
}

func withConditions(sent *csr) map[string]any {
	return map[string]any{"status": map[string]any{"conditions": append([]condition{}, sent.Status.Conditions...)}}
}

func put(ctx context.Context, by *voter, subresource string, sent *csr, options metav1.UpdateOptions) (*csr, error) {
	into := by.client.CertificatesV1().RESTClient().Put().Resource("certificatesigningrequests").Name(sent.Name)
	return written(ctx, into, subresource, options, sent)
}

func patch(ctx context.Context, client rest.Interface, kind types.PatchType, subresource, name string, content any, options metav1.UpdateOptions) (*csr, error) {
	data, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	into := client.Patch(kind).Resource("certificatesigningrequests").Name(name)
	if options.FieldManager != "" {
		into = into.Param("fieldManager", options.FieldManager).Param("force", "true")
	}
	return written(ctx, into, subresource, options, data)
}

func written(ctx context.Context, into *rest.Request, subresource string, options metav1.UpdateOptions, body any) (*csr, error) {
	if subresource != "" {
		into = into.SubResource(subresource)
	}
	if len(options.DryRun) > 0 {
		into = into.Param("dryRun", metav1.DryRunAll)
	}
	answer, err := into.SetHeader("Accept", "application/json").Body(body).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	stored := &csr{}
	return stored, json.Unmarshal(answer, stored)
}

// unexpected returns errors that are no answer to a client's mistake.
func unexpected(err error) error {
	var status apierrors.APIStatus
	switch {
	case err == nil, errors.As(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err):
		return nil
	case strings.Contains(err.Error(), `duplicate entries for key [type="Approved"]`):
		// v1beta1 stores them, and then kube-apiserver cannot apply either.
		return nil
	}
	return err
}

// has reports whether conditions have one of a type.
func has(conditions []condition, kind string) bool {
	for _, c := range conditions {
		if string(c.Type) == kind {
			return true
		}
	}
	return false
}

// voted returns the records of the votes in conditions. The seals are not
// verified.
func voted(conditions []condition) ([]quorum.Record, error) {
	var records []quorum.Record
	for _, c := range conditions {
		if !quorum.IsVote(string(c.Type)) {
			continue
		}
		parts := strings.Split(c.Message, ".")
		if len(parts) < 3 {
			return nil, fmt.Errorf("%s: %s", c.Type, c.Message)
		}
		data, err := base64.RawURLEncoding.DecodeString(parts[len(parts)-2])
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.Type, c.Message, err)
		}
		var record quorum.Record
		if err := json.Unmarshal(data, &record); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", c.Type, c.Message, err)
		}
		records = append(records, record)
	}
	return records, nil
}

// requirement returns a requirement of people, such as "2 of pki".
func requirement(count int32, from ...string) v1alpha1.PeopleRequirement {
	people := v1alpha1.PeopleRequirement{Count: count}
	for _, text := range from {
		number, group, _ := strings.Cut(text, " of ")
		people.From = append(people.From, v1alpha1.PeopleFrom{Groups: []string{group}, Count: int32(number[0] - '0')})
	}
	return people
}

// TestPeopleOfOtherSigners: a policy that wants people for a signer of others tells
// that these are not counted there.
func TestPeopleOfOtherSigners(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Controllers = append(c.Controllers, "-sign") })
	people := func(name, signer string) *v1alpha1.CertificatePolicy {
		return &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CertificatePolicySpec{
			Effect: v1alpha1.PolicyLimit, Match: v1alpha1.PolicyMatch{Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}, Signers: []string{signer}},
			Approval: &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &v1alpha1.PeopleRequirement{Count: 2}},
		}}
	}
	counted := func(p *v1alpha1.CertificatePolicy) *metav1.Condition {
		f.ready(p)
		if err := f.objects.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(p.Status.Conditions, v1alpha1.PolicyApprovalsCounted)
	}
	const want = "certplane does not sign for " + signerName + ": a request that is approved past admission"
	var told heard
	p := people("elsewhere", signerName)
	if err := f.listening(&told).Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "spec.match.signers: "+want) {
		t.Errorf("the author was told %q", told)
	}
	if c := counted(p); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "SignerNotOurs" || !strings.HasPrefix(c.Message, want) {
		t.Errorf("the condition is %+v", c)
	}
	p.Spec.Mode = v1alpha1.PolicyShadow
	if err := f.objects.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if c := counted(p); c != nil {
		t.Errorf("in the shadow, the condition is %+v", c)
	}
	f.create(&v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Spec: v1alpha1.SignerSpec{
		SignerName: "example.com/here", Requests: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests},
		CA:      v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{CommonName: "here"}},
		Profile: v1alpha1.SignerProfile{Names: v1alpha1.NamesProfile{DNSNames: "request.dnsNames"}, Usages: []string{"digital signature", "server auth"}},
	}})
	apitest.Eventually(t, "the Signer is known", func() bool {
		told = nil
		return f.listening(&told).Create(t.Context(), people("dry", "example.com/here"), client.DryRunAll) == nil && len(told) == 0
	})
	for _, signer := range []string{"example.com/here", "example.com/*", "clusterissuers.cert-manager.io/any"} {
		told = nil
		p := people("p"+fmt.Sprint(len(signer)), signer)
		if err := f.listening(&told).Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if c := counted(p); c != nil || len(told) > 0 {
			t.Errorf("for %s, the condition is %+v, and the author was told %q", signer, c, told)
		}
	}
}
