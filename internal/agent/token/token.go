// Package token decides when a service account's token is replaced, and asks
// for the next one.
package token

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

const (
	// defaultSeconds is the lifetime of a token whose source names none.
	defaultSeconds = 60 * 60
	// refreshShare is the part of its lifetime after which a token is replaced,
	// as kubelets do. A token that is a day old is replaced too.
	refreshShare = 0.8
	refreshAge   = 24 * time.Hour
)

// Purpose is the intended use of a token.
type Purpose struct {
	PodUID         types.UID `json:"podUID"`
	ServiceAccount string    `json:"serviceAccount"`
	Audience       string    `json:"audience,omitempty"`
	Seconds        int64     `json:"seconds"`
}

// Secret is a token that does not appear in logs.
type Secret string

// String keeps tokens out of logs and errors.
func (Secret) String() string { return "(token)" }

// GoString is String for %#v.
func (Secret) GoString() string { return "(token)" }

// MarshalJSON writes the token itself, which String does not.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(string(s)) }

// Record is a token that the agent has. It belongs in a file that only the
// agent can read.
type Record struct {
	For       Purpose   `json:"for"`
	Token     Secret    `json:"token"`
	IssuedAt  time.Time `json:"issuedAt"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// For returns the purpose of a source's token in a pod that is registered.
func For(pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection) Purpose {
	return Purpose{
		PodUID: pod.UID, ServiceAccount: pod.Spec.ServiceAccountName,
		Audience: source.Audience, Seconds: ptr.Deref(source.ExpirationSeconds, defaultSeconds),
	}
}

// RefreshAt returns when the token is due to be replaced. An empty record is
// due.
func (r Record) RefreshAt() time.Time {
	age := time.Duration(float64(r.ExpiresAt.Sub(r.IssuedAt)) * refreshShare)
	return r.IssuedAt.Add(min(age, refreshAge))
}

// ValidFor reports whether the token is for a purpose and not due.
func (r Record) ValidFor(purpose Purpose, now time.Time) bool {
	return r.Token != "" && r.For == purpose && now.Before(r.RefreshAt())
}

// Request asks for a token that ends with the pod.
func Request(ctx context.Context, accounts typedcorev1.ServiceAccountInterface, pod *corev1.Pod, purpose Purpose, now time.Time) (Record, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &purpose.Seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if purpose.Audience != "" {
		request.Spec.Audiences = []string{purpose.Audience}
	}
	answer, err := accounts.CreateToken(ctx, purpose.ServiceAccount, request, metav1.CreateOptions{})
	if err != nil {
		return Record{}, fmt.Errorf("asking for a token of service account %s/%s: %w", pod.Namespace, purpose.ServiceAccount, err)
	}
	return Record{For: purpose, Token: Secret(answer.Status.Token), IssuedAt: now, ExpiresAt: now.Add(lifetime(answer))}, nil
}

// lifetime returns the lifetime that the server gave, by the server's own
// clock. It can be shorter than requested.
func lifetime(answer *authenticationv1.TokenRequest) time.Duration {
	if created := answer.CreationTimestamp.Time; !created.IsZero() && answer.Status.ExpirationTimestamp.After(created) {
		return answer.Status.ExpirationTimestamp.Sub(created)
	}
	return time.Duration(ptr.Deref(answer.Spec.ExpirationSeconds, defaultSeconds)) * time.Second
}
