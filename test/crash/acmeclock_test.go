package crash

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/acmetest"
)

// The clock of a CA is two hours fast or slow: certificates are not valid yet,
// half over, or have expired when they arrive. Each arrives once and is not ordered
// again and again; one that has expired is refused, with the reason.
func TestClockOfTheCAIsAnother(t *testing.T) {
	t.Parallel()
	const calm = 5 * time.Second
	for _, tc := range []struct {
		name            string
		clock, lifetime time.Duration
		expired         bool
	}{
		{name: "fast", clock: 2 * time.Hour},
		{name: "slow", clock: -2 * time.Hour, lifetime: 5 * time.Hour},
		{name: "slow, short-lived", clock: -2 * time.Hour, lifetime: time.Hour, expired: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newACMEWorld(t, acmetest.Options{Lifetime: tc.lifetime, Now: func() time.Time { return time.Now().Add(tc.clock) }})
			w.request("web", "www.example.com")
			cert := &cmv1.Certificate{}
			w.await("web", func() bool {
				err := w.api.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceDefault, Name: "web"}, cert)
				return err == nil && (w.isFinished("web") || tc.expired && hasExpired(cert))
			})
			again := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, calm, true, func(ctx context.Context) (bool, error) {
				var orders acmev1.OrderList
				err := w.api.List(ctx, &orders)
				return err == nil && len(orders.Items) > 1 || len(w.ca.Orders()) > 1, nil
			})
			if again == nil {
				t.Errorf("%d orders: %s", len(w.ca.Orders()), w.describe("web"))
			}
		})
	}
}

// hasExpired reports whether a Certificate has the message that its issued certificate
// had already expired.
func hasExpired(cert *cmv1.Certificate) bool {
	return slices.ContainsFunc(cert.Status.Conditions, func(c cmv1.CertificateCondition) bool {
		return c.Type == cmv1.CertificateConditionIssuing && strings.Contains(c.Message, "Issued certificate expired already on ")
	})
}
