package publishlists

import (
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/revocation"
)

// listFor returns a list of a CA that begins and ends at some hours from noon, with other CAs
// above.
func listFor(t *testing.T, signer string, begins, ends int, above ...*x509.Certificate) *revocation.List {
	t.Helper()
	ca := newCA(t, both, same).Certificate()
	stored := &revocation.StoredList{
		Signers: []string{signer}, Chain: [][]byte{ca.Raw},
		ThisUpdate: noon.Add(time.Duration(begins) * time.Hour), NextUpdate: noon.Add(time.Duration(ends) * time.Hour),
	}
	for _, cert := range above {
		stored.Chain = append(stored.Chain, cert.Raw)
	}
	id := revocation.ListID(ca)
	return &revocation.List{ID: id, Last: stored, CA: ca, Served: stored, DER: []byte("list " + id)}
}

func TestFill(t *testing.T) {
	const signer = "example.com/web"
	root := listFor(t, "root", -10, 100)
	web, next := listFor(t, signer, -1, 1, root.CA), listFor(t, signer, -3, 10, root.CA)
	ended, large := listFor(t, signer, -20, 0), listFor(t, signer, -1, 1)
	large.DER = make([]byte, 800_000)
	unread := listFor(t, signer, -1, 1)
	unread.DER = nil
	tests := []struct {
		reason string
		lists  []*revocation.List
		signer string
		other  string
		want   []*revocation.List
		date   int
		// problem and about are those of the Event.
		problem, about string
	}{
		{reason: "of the CA and the one above", lists: []*revocation.List{root, web}, want: []*revocation.List{web, root}, date: -10},
		{reason: "of two CAs", lists: []*revocation.List{next, root, web, listFor(t, "example.com/other", -1, 1)}, want: []*revocation.List{web, next, root}, date: -10},
		{reason: "a former CA without a key", lists: []*revocation.List{ended, web, root}, want: []*revocation.List{web, root}, date: -10},
		{reason: "only an ended list", lists: []*revocation.List{ended}, problem: "NoList", about: signer},
		{reason: "no list above", lists: []*revocation.List{web}, problem: "NoList", about: "CN=CA"},
		{reason: "a list that is not built yet", lists: []*revocation.List{unread}, problem: "NoList", about: "CN=CA"},
		{reason: "another signer", lists: []*revocation.List{web, root}, signer: "example.com/wbe", problem: "NoList", about: "example.com/wbe"},
		{reason: "no signer", lists: []*revocation.List{web, root}, signer: "-", problem: "NotFilled", about: SignerAnnotation},
		{reason: "too large", lists: []*revocation.List{large}, problem: "TooLarge", about: "1048576"},
		{reason: "too large with others", lists: []*revocation.List{web, root}, other: strings.Repeat("x", 1<<20-50), problem: "TooLarge", about: "1048576"},
	}
	for _, tc := range tests {
		marked := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{SignerAnnotation: signer}}, Data: map[string]string{"other": tc.other, FileKey: strings.Repeat("x", 1<<20)}}
		if tc.signer != "" {
			marked.Annotations[SignerAnnotation] = strings.Trim(tc.signer, "-")
		}
		before := marked.DeepCopy()
		problem := fill(marked, tc.lists, noon)
		text, date := marked.Data[FileKey], marked.Annotations[DateAnnotation]
		if tc.problem != "" {
			if problem.reason != tc.problem || !strings.Contains(problem.message, tc.about) {
				t.Errorf("%s: %v, %d bytes", tc.reason, problem, len(text))
			}
			continue
		}
		if problem != (unfilled{}) || before.Data["other"] != marked.Data["other"] {
			t.Errorf("%s: %v", tc.reason, problem)
			continue
		}
		rest := []byte(text)
		for _, list := range tc.want {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil || block.Type != "X509 CRL" || string(block.Bytes) != string(list.DER) {
				// Both CAs of a signer begin at the same time: their order is that of their IDs.
				if list != web && list != next {
					t.Errorf("%s: not the list of %s", tc.reason, list.ID)
				}
			}
		}
		if want := noon.Add(time.Duration(tc.date) * time.Hour).Format(time.RFC3339); len(rest) > 0 || date != want || strings.Count(text, "BEGIN") != len(tc.want) {
			t.Errorf("%s: %d lists, dated %s", tc.reason, strings.Count(text, "BEGIN"), date)
		}
	}
}
