package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
)

var now = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

func TestGood(t *testing.T) {
	hour := Record{For: Purpose{Audience: "a"}, Token: "t", IssuedAt: now, ExpiresAt: now.Add(time.Hour)}
	year := hour
	year.ExpiresAt = now.AddDate(1, 0, 0)
	tests := []struct {
		reason  string
		record  Record
		purpose Purpose
		after   time.Duration
		want    bool
	}{
		{"none", Record{}, Purpose{}, 0, false},
		{"new", hour, hour.For, 0, true},
		{"before 80 percent", hour, hour.For, 47 * time.Minute, true},
		{"after 80 percent", hour, hour.For, 48 * time.Minute, false},
		{"another audience", hour, Purpose{}, 0, false},
		{"a long one before a day", year, hour.For, 23 * time.Hour, true},
		{"a long one after a day", year, hour.For, 24 * time.Hour, false},
	}
	for _, tt := range tests {
		if got := tt.record.ValidFor(tt.purpose, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s: %v", tt.reason, got)
		}
	}
}

// accounts answers one request for a token.
type accounts struct {
	typedcorev1.ServiceAccountInterface
	asked authenticationv1.TokenRequestSpec
	name  string
	life  time.Duration
	err   error
}

func (a *accounts) CreateToken(_ context.Context, name string, request *authenticationv1.TokenRequest, _ metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	a.name, a.asked = name, request.Spec
	answer := request.DeepCopy()
	// The server's clock differs from ours.
	answer.CreationTimestamp = metav1.NewTime(now.AddDate(0, 1, 0))
	answer.Status = authenticationv1.TokenRequestStatus{Token: "secret", ExpirationTimestamp: metav1.NewTime(answer.CreationTimestamp.Add(a.life))}
	return answer, a.err
}

func TestRequest(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-n", UID: "u"}, Spec: corev1.PodSpec{ServiceAccountName: "web"}}
	server := &accounts{life: 20 * time.Minute}
	purpose := For(pod, &corev1.ServiceAccountTokenProjection{Audience: "vault"})
	record, err := Request(t.Context(), server, pod, purpose, now)
	if err != nil {
		t.Fatal(err)
	}
	want := authenticationv1.TokenRequestSpec{
		Audiences: []string{"vault"}, ExpirationSeconds: ptr.To[int64](3600),
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web-n", UID: "u"},
	}
	if diff := cmp.Diff(want, server.asked); diff != "" || server.name != "web" {
		t.Errorf("asked for %s (-want +got):\n%s", server.name, diff)
	}
	if !record.ExpiresAt.Equal(now.Add(20 * time.Minute)) {
		t.Errorf("it ends at %s, want after the server's 20 minutes by our clock", record.ExpiresAt)
	}
	if _, err := Request(t.Context(), &accounts{err: errors.New("no")}, pod, purpose, now); err == nil || !strings.Contains(err.Error(), "ns/web") {
		t.Errorf("a refusal: %v", err)
	}
	if text := fmt.Sprintf("%v %+v %#v", record, record, record); strings.Contains(text, "secret") {
		t.Errorf("the token shows: %s", text)
	}
	data, err := json.Marshal(record)
	var back Record
	if err != nil || json.Unmarshal(data, &back) != nil || back.Token != "secret" {
		t.Errorf("the token is lost on disk: %s, %v", data, err)
	}
}
