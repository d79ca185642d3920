package tokenrequest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apiserver/authn/serviceaccount"
	"github.com/certplane/certplane/internal/pki"
)

var testNow = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

func meta(namespace, name string, uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}
}

func newStorage(t *testing.T, change func(*Options)) *Storage {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := serviceaccount.NewKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(
		&corev1.ServiceAccount{ObjectMeta: meta("ci", "builder", "u-builder")},
		&corev1.Pod{ObjectMeta: meta("ci", "web", "u-web"), Spec: corev1.PodSpec{ServiceAccountName: "builder", NodeName: "n1"}},
		&corev1.Pod{ObjectMeta: meta("ci", "waiting", "u-waiting"), Spec: corev1.PodSpec{ServiceAccountName: "builder"}},
		&corev1.Pod{ObjectMeta: meta("ci", "lost", "u-lost"), Spec: corev1.PodSpec{ServiceAccountName: "builder", NodeName: "gone"}},
		&corev1.Pod{ObjectMeta: meta("ci", "other", "u-other"), Spec: corev1.PodSpec{ServiceAccountName: "default"}},
		&corev1.Secret{ObjectMeta: meta("ci", "s", "u-s")},
		&corev1.Node{ObjectMeta: meta("", "n1", "u-n1")},
	)
	opts := Options{
		Issuer:    serviceaccount.Issuer{Name: "https://issuer.example", Keys: keys},
		Objects:   client.CoreV1(),
		Audiences: []string{"api", "api2"},
		Now:       func() time.Time { return testNow },
	}
	if change != nil {
		change(&opts)
	}
	return New(opts)
}

// newRequest returns a request for an hour, after change.
func newRequest(change func(*authenticationv1.TokenRequest)) *authenticationv1.TokenRequest {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	if change != nil {
		change(request)
	}
	return request
}

func bound(apiVersion, kind, name string, uid types.UID) func(*authenticationv1.TokenRequest) {
	return func(r *authenticationv1.TokenRequest) {
		r.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid}
	}
}

// warnings records the warnings for a client.
type warnings []string

func (w *warnings) AddWarning(_, text string) { *w = append(*w, text) }

func create(ctx context.Context, s *Storage, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, serviceaccount.Claims, error) {
	ctx = genericapirequest.WithNamespace(ctx, "ci")
	obj, err := s.Create(ctx, "builder", request, nil, &metav1.CreateOptions{})
	if err != nil {
		return nil, serviceaccount.Claims{}, err
	}
	answer := obj.(*authenticationv1.TokenRequest)
	var claims serviceaccount.Claims
	_, _, err = jwt.NewParser().ParseUnverified(answer.Status.Token, &claims)
	return answer, claims, err
}

func TestBinding(t *testing.T) {
	account := serviceaccount.Ref{Name: "builder", UID: "u-builder"}
	tests := []struct {
		reason string
		change func(*authenticationv1.TokenRequest)
		want   serviceaccount.Binding
	}{
		{"nothing but the account", nil, serviceaccount.Binding{}},
		{"pod", bound("v1", "Pod", "web", "u-web"), serviceaccount.Binding{
			Pod: &serviceaccount.Ref{Name: "web", UID: "u-web"}, Node: &serviceaccount.Ref{Name: "n1", UID: "u-n1"}}},
		{"pod of any UID", bound("v1", "Pod", "web", ""), serviceaccount.Binding{
			Pod: &serviceaccount.Ref{Name: "web", UID: "u-web"}, Node: &serviceaccount.Ref{Name: "n1", UID: "u-n1"}}},
		{"pod without a node", bound("v1", "Pod", "waiting", ""), serviceaccount.Binding{
			Pod: &serviceaccount.Ref{Name: "waiting", UID: "u-waiting"}}},
		{"pod on an unknown node", bound("v1", "Pod", "lost", ""), serviceaccount.Binding{
			Pod: &serviceaccount.Ref{Name: "lost", UID: "u-lost"}, Node: &serviceaccount.Ref{Name: "gone"}}},
		{"secret", bound("v1", "Secret", "s", "u-s"), serviceaccount.Binding{Secret: &serviceaccount.Ref{Name: "s", UID: "u-s"}}},
		{"node", bound("v1", "Node", "n1", "u-n1"), serviceaccount.Binding{Node: &serviceaccount.Ref{Name: "n1", UID: "u-n1"}}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			_, claims, err := create(t.Context(), newStorage(t, nil), newRequest(tt.change))
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Namespace, tt.want.Account = "ci", account
			if diff := cmp.Diff(tt.want, claims.Kubernetes); diff != "" {
				t.Errorf("binding (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		reason string
		change func(*authenticationv1.TokenRequest)
		code   int32
		want   string
	}{
		{"other name", func(r *authenticationv1.TokenRequest) { r.Name = "x" }, 422, "metadata.name: Invalid value: \"x\": must match the service account name if specified"},
		{"other namespace", func(r *authenticationv1.TokenRequest) { r.Namespace = "x" }, 422, "metadata.namespace: Invalid value: \"x\": must match the service account namespace if specified"},
		{"other account of this name", func(r *authenticationv1.TokenRequest) { r.UID = "u-old" }, 409, "the UID in the token request (u-old) does not match the UID of the service account (u-builder)"},
		{"too short", func(r *authenticationv1.TokenRequest) { r.Spec.ExpirationSeconds = ptr.To[int64](599) }, 422, "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"},
		{"too long", func(r *authenticationv1.TokenRequest) { r.Spec.ExpirationSeconds = ptr.To[int64](1<<32 + 1) }, 422, "may not specify a duration larger than 2^32 seconds"},
		{"no such pod", bound("v1", "Pod", "x", ""), 404, `pods "x" not found`},
		{"no such secret", bound("v1", "Secret", "x", ""), 404, `secrets "x" not found`},
		{"no such node", bound("v1", "Node", "x", ""), 404, `nodes "x" not found`},
		{"pod made again", bound("v1", "Pod", "web", "u-old"), 409, "the UID in the bound object reference (u-old) does not match the UID in record. The object might have been deleted and then recreated"},
		{"secret made again", bound("v1", "Secret", "s", "u-old"), 409, "the UID in the bound object reference (u-old)"},
		{"node made again", bound("v1", "Node", "n1", "u-old"), 409, "the UID in the bound object reference (u-old)"},
		{"pod of another account", bound("v1", "Pod", "other", ""), 400, `cannot bind token for serviceaccount "builder" to pod running with different serviceaccount name.`},
		{"other kind", bound("v1", "ConfigMap", "x", ""), 400, "cannot bind token to object of type /v1, Kind=ConfigMap"},
		{"other group", bound("apps/v1", "Pod", "web", ""), 400, "cannot bind token to object of type apps/v1, Kind=Pod"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			_, _, err := create(t.Context(), newStorage(t, nil), newRequest(tt.change))
			var status apierrors.APIStatus
			if !errors.As(err, &status) || status.Status().Code != tt.code || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %d %s", err, tt.code, tt.want)
			}
		})
	}
}

func TestNoSuchAccount(t *testing.T) {
	ctx := genericapirequest.WithNamespace(t.Context(), "ci")
	_, err := newStorage(t, nil).Create(ctx, "nobody", newRequest(nil), nil, &metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("error is %v", err)
	}
}

func TestAnswer(t *testing.T) {
	request := newRequest(func(r *authenticationv1.TokenRequest) { r.Status.Token = "of the client" })
	answer, claims, err := create(t.Context(), newStorage(t, nil), request)
	if err != nil {
		t.Fatal(err)
	}
	want := meta("ci", "builder", "u-builder")
	want.CreationTimestamp = metav1.NewTime(testNow)
	if diff := cmp.Diff(want, answer.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if got := answer.Status.ExpirationTimestamp; !got.Time.Equal(testNow.Add(time.Hour)) || !claims.ExpiresAt.Equal(got.Time) {
		t.Errorf("it ends at %v, says the status, and at %v, says the token", got, claims.ExpiresAt)
	}
	if !slices.Equal(answer.Spec.Audiences, []string{"api", "api2"}) || !slices.Equal(claims.Audience, answer.Spec.Audiences) {
		t.Errorf("audiences are %q and %q", answer.Spec.Audiences, claims.Audience)
	}
}

func TestLifetimes(t *testing.T) {
	onPod := bound("v1", "Pod", "web", "")
	request := func(seconds int64, audiences ...string) func(*authenticationv1.TokenRequest) {
		return func(r *authenticationv1.TokenRequest) {
			onPod(r)
			r.Spec.ExpirationSeconds, r.Spec.Audiences = &seconds, audiences
		}
	}
	const year = 365 * 24 * time.Hour
	tests := []struct {
		reason  string
		options func(*Options)
		change  func(*authenticationv1.TokenRequest)
		status  time.Duration // in the response
		token   time.Duration // in the token
		warn    time.Duration
		warning string
	}{
		{reason: "as asked", change: request(7200), status: 2 * time.Hour, token: 2 * time.Hour},
		{reason: "the longest of all", change: request(1 << 32), status: 1 << 32 * time.Second, token: 1 << 32 * time.Second},
		{reason: "more than the operator allows", options: func(o *Options) { o.MaxExpiration = time.Hour }, change: request(7200),
			status: time.Hour, token: time.Hour, warning: "requested expiration of 7200 seconds shortened to 3600 seconds"},
		{reason: "of a kubelet", options: func(o *Options) { o.ExtendExpiration = true }, change: request(3607),
			status: 3607 * time.Second, token: year, warn: 3607 * time.Second},
		{reason: "of a kubelet, for this server by name", options: func(o *Options) { o.ExtendExpiration = true }, change: request(3607, "api2"),
			status: 3607 * time.Second, token: year, warn: 3607 * time.Second},
		{reason: "of a kubelet, and the operator has a limit", options: func(o *Options) { o.ExtendExpiration, o.MaxExpiration = true, 24*time.Hour }, change: request(3607),
			status: 3607 * time.Second, token: 24 * time.Hour, warn: 3607 * time.Second},
		{reason: "of a kubelet, for somebody else too", options: func(o *Options) { o.ExtendExpiration = true }, change: request(3607, "api", "vault"),
			status: 3607 * time.Second, token: 3607 * time.Second},
		{reason: "not for a pod", options: func(o *Options) { o.ExtendExpiration = true }, change: func(r *authenticationv1.TokenRequest) {
			r.Spec.ExpirationSeconds = ptr.To[int64](3607)
		}, status: 3607 * time.Second, token: 3607 * time.Second},
		{reason: "extension is off", change: request(3607), status: 3607 * time.Second, token: 3607 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			var warned warnings
			ctx := warning.WithWarningRecorder(t.Context(), &warned)
			answer, claims, err := create(ctx, newStorage(t, tt.options), newRequest(tt.change))
			if err != nil {
				t.Fatal(err)
			}
			if got := answer.Status.ExpirationTimestamp.Sub(testNow); got != tt.status {
				t.Errorf("the status says %v, want %v", got, tt.status)
			}
			if got := time.Duration(*answer.Spec.ExpirationSeconds) * time.Second; got != tt.status {
				t.Errorf("the spec says %v, want %v", got, tt.status)
			}
			if got := claims.ExpiresAt.Sub(testNow); got != tt.token {
				t.Errorf("the token says %v, want %v", got, tt.token)
			}
			var warn time.Duration
			if after := claims.Kubernetes.WarnAfter; after != nil {
				warn = after.Sub(testNow)
			}
			if warn != tt.warn {
				t.Errorf("warnafter is %v, want %v", warn, tt.warn)
			}
			if got := strings.Join(warned, ";"); got != tt.warning {
				t.Errorf("warnings are %q, want %q", got, tt.warning)
			}
		})
	}
}

func TestAdmissionDecides(t *testing.T) {
	ctx := genericapirequest.WithNamespace(t.Context(), "ci")
	refusal := errors.New("refused")
	var seen *authenticationv1.TokenRequest
	admit := func(_ context.Context, obj runtime.Object) error {
		seen = obj.(*authenticationv1.TokenRequest)
		return refusal
	}
	_, err := newStorage(t, nil).Create(ctx, "builder", newRequest(nil), admit, &metav1.CreateOptions{})
	if !errors.Is(err, refusal) {
		t.Errorf("error is %v", err)
	}
	// NodeRestriction and policies check the completed request.
	if seen.Name != "builder" || seen.UID != "u-builder" || len(seen.Spec.Audiences) == 0 {
		t.Errorf("admission sees %+v", seen)
	}
}
