package decide

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/quorum"
)

var approve = Decision{Kind: cmv1.CertificateRequestConditionApproved, Reason: "Test", Message: "by a test"}

// newServer returns a server with these objects. Without change, a decision is stored
// as it is.
func newServer(t *testing.T, change interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{certmanager.AddToScheme, certificatesv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	if change.SubResourceUpdate == nil {
		change.SubResourceUpdate = func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return nil
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(change).Build()
}

func signing(name string) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "new"}}
}

func forIssuer(name string) *cmv1.CertificateRequest {
	return &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

// An approval that the server has turned into a vote is not called an approval.
func TestVote(t *testing.T) {
	const progress = "1 of 2 approvals: 1 more"
	vote := func(_ context.Context, _ client.Client, _ string, object client.Object, _ ...client.SubResourceUpdateOption) error {
		switch o := object.(type) {
		case *cmv1.CertificateRequest:
			o.Status.Conditions = nil
			certmanager.SetRequestCondition(o, quorum.AwaitingApproval, cmmeta.ConditionTrue, "ApprovalsMissing", progress, metav1.Now())
		case *certificatesv1.CertificateSigningRequest:
			o.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: quorum.AwaitingApproval, Message: progress}}
		}
		return nil
	}
	for _, tc := range []struct {
		reason  string
		request client.Object
		answer  interceptor.Funcs
		want    string
	}{
		{"approved", forIssuer("web"), interceptor.Funcs{}, "Approved CertificateRequest shop/web\n"},
		{"a vote", forIssuer("web"), interceptor.Funcs{SubResourceUpdate: vote}, "CertificateRequest shop/web waits for more people: " + progress + "\n"},
		{"approved", signing("web"), interceptor.Funcs{}, "Approved CertificateSigningRequest web\n"},
		{"a vote", signing("web"), interceptor.Funcs{SubResourceUpdate: vote}, "CertificateSigningRequest web waits for more people: " + progress + "\n"},
	} {
		var said bytes.Buffer
		err := Requests(t.Context(), newServer(t, tc.answer, tc.request), "shop", []Name{{Name: "web"}}, approve, time.Now(), &said)
		if err != nil || said.String() != tc.want {
			t.Errorf("%s: %q, %v; want %q", tc.reason, &said, err, tc.want)
		}
	}
}

// What a name means follows from what there is and what the caller may see.
func TestNames(t *testing.T) {
	forbidIssuers := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if _, ok := o.(*cmv1.CertificateRequest); ok {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "certificaterequests"}, key.Name, fmt.Errorf("no"))
		}
		return c.Get(ctx, key, o, options...)
	}}
	for _, tc := range []struct {
		reason string
		server client.Client
		args   string
		want   string // of what is said, or of the error
	}{
		{"two of that name", newServer(t, interceptor.Funcs{}, signing("web"), forIssuer("web")), "web", "use csr/web or certificaterequest/web"},
		{"the one", newServer(t, interceptor.Funcs{}, signing("web"), forIssuer("web")), "csr/web", "Approved CertificateSigningRequest web"},
		{"the other", newServer(t, interceptor.Funcs{}, signing("web"), forIssuer("web")), "certificaterequests.cert-manager.io/web", "Approved CertificateRequest shop/web"},
		{"a kind for all", newServer(t, interceptor.Funcs{}, signing("a"), signing("b")), "csr a b", "Approved CertificateSigningRequest a\nApproved CertificateSigningRequest b"},
		{"a request that is called like a kind", newServer(t, interceptor.Funcs{}, signing("csr")), "csr", "Approved CertificateSigningRequest csr"},
		{"one kind is not shown", newServer(t, forbidIssuers, signing("web")), "web", "Approved CertificateSigningRequest web"},
		{"nothing is shown", newServer(t, forbidIssuers), "web", "is forbidden"},
		{"none of a kind", newServer(t, interceptor.Funcs{}, signing("web")), "cr/web", `there is no CertificateRequest "web" in namespace "shop"`},
	} {
		names, err := ParseNames(strings.Fields(tc.args))
		if err != nil {
			t.Fatalf("%s: %v", tc.reason, err)
		}
		var said bytes.Buffer
		err = Requests(t.Context(), tc.server, "shop", names, approve, time.Now(), &said)
		if got := fmt.Sprintln(said.String(), err); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %s; want %q", tc.reason, got, tc.want)
		}
	}
}

// Nobody approves a request that took the place of the one that was shown.
func TestReplaced(t *testing.T) {
	var said bytes.Buffer
	err := Requests(t.Context(), newServer(t, interceptor.Funcs{}, signing("web")), "shop", []Name{{Name: "web", UID: "shown"}}, approve, time.Now(), &said)
	if err == nil || !strings.Contains(err.Error(), "another request now has its name") || said.Len() > 0 {
		t.Errorf("%s, %v", &said, err)
	}
}

func TestParseNamesRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":               "name the requests",
		"pcr/web":        "does not name a request that people decide",
		"csr/":           "does not name a request that people decide",
		"csr web cr/web": "the kind was given before: csr",
		"csr.example/a":  "does not name a request that people decide",
	} {
		if _, err := ParseNames(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", args, err, want)
		}
	}
}
