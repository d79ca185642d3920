package inbox

import (
	"strings"
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/rights"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// A request of a pod says who it is for, and waits for nobody's decision.
func TestPodRequest(t *testing.T) {
	e, _ := EntryOf(&certificatesv1beta1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", CreationTimestamp: metav1.NewTime(now.Add(-5 * time.Minute))},
		Spec:       certificatesv1beta1.PodCertificateRequestSpec{SignerName: "certplane.dev/spiffe", PodName: "web-0", ServiceAccountName: "web"},
	})
	text := Inbox{Requests: []Entry{e}}.Text(now, false)
	const want = "pcr/web-1  shop       certplane.dev/spiffe  system:serviceaccount:shop:web  pod web-0, service account web  -      -       5m   Pending  -\n"
	if !strings.HasSuffix(text, "\n"+want) {
		t.Errorf("%s; want %s", text, want)
	}
}

// What requesters write cannot control a terminal or break the table, and many names
// are shortened where there is little space.
func TestHostileText(t *testing.T) {
	e := Entry{
		Name: "web", Subject: "CN=a\x1b[2J\nb\tc", Names: []string{"DNS:a", "DNS:b", "DNS:c", "DNS:d"},
		Created: now, State: "Pending", YouMayDecide: explain.Yes, resource: rights.SigningRequests,
	}
	short, wide := Inbox{Requests: []Entry{e}}.Text(now, false), Inbox{Requests: []Entry{e}}.Text(now, true)
	for _, text := range []string{short, wide} {
		if strings.Count(text, "\n") != 2 || strings.ContainsAny(text, "\x1b\t") || !strings.Contains(text, `CN=a\x1b[2J\nb\tc`) {
			t.Errorf("%q", text)
		}
	}
	if !strings.Contains(short, "DNS:a,DNS:b,DNS:c +1 ") || !strings.Contains(wide, "DNS:a,DNS:b,DNS:c,DNS:d ") {
		t.Errorf("%s\n%s", short, wide)
	}
}
