package decide

import (
	"bytes"
	"context"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// An approval that the server has turned into a vote is not called an approval.
func TestVote(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := certmanager.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cr := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for _, tc := range []struct {
		reason string
		answer func(*cmv1.CertificateRequest)
		want   string
	}{
		{"approved", func(*cmv1.CertificateRequest) {}, "Approved CertificateRequest shop/web\n"},
		{"a vote", func(cr *cmv1.CertificateRequest) {
			cr.Status.Conditions = nil
			certmanager.SetRequestCondition(cr, quorum.AwaitingApproval, cmmeta.ConditionTrue, "ApprovalsMissing", "1 of 2 approvals: 1 more", metav1.Now())
		}, "CertificateRequest shop/web waits for more people: 1 of 2 approvals: 1 more\n"},
	} {
		server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cr).WithInterceptorFuncs(interceptor.Funcs{
			SubResourceUpdate: func(_ context.Context, _ client.Client, _ string, o client.Object, _ ...client.SubResourceUpdateOption) error {
				tc.answer(o.(*cmv1.CertificateRequest))
				return nil
			},
		}).Build()
		var said bytes.Buffer
		err := Requests(t.Context(), server, "shop", []string{"web"}, Decision{Kind: cmv1.CertificateRequestConditionApproved, Reason: "Test", Message: "by a test"}, time.Now(), &said)
		if err != nil || said.String() != tc.want {
			t.Errorf("%s: %q, %v; want %q", tc.reason, &said, err, tc.want)
		}
	}
}
