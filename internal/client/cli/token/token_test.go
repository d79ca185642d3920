package token

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var testNow = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

func TestSecret(t *testing.T) {
	tests := []struct {
		reason  string
		options Options
		want    map[string]string // besides what every token has
	}{
		{"forever", Options{}, nil},
		{"for a day", Options{TTL: 24 * time.Hour}, map[string]string{"expiration": "2030-05-18T12:00:00Z"}},
		{"with groups", Options{Groups: []string{"system:bootstrappers:a", "system:bootstrappers:b"}},
			map[string]string{"auth-extra-groups": "system:bootstrappers:a,system:bootstrappers:b"}},
		{"described", Options{Description: "rack 7"}, map[string]string{"description": "rack 7"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			secret := tt.options.secret("abcdef.0123456789abcdef", testNow)
			if got := secret.Namespace + "/" + secret.Name; got != "kube-system/bootstrap-token-abcdef" {
				t.Errorf("name is %s", got)
			}
			if secret.Type != "bootstrap.kubernetes.io/token" {
				t.Errorf("type is %s", secret.Type)
			}
			want := map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
			for key, value := range tt.want {
				want[key] = value
			}
			got := map[string]string{}
			for key, value := range secret.Data {
				got[key] = string(value)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWishes(t *testing.T) {
	tests := []struct {
		reason  string
		options Options
		want    string // part of the error
	}{
		{"nothing special", Options{TTL: time.Hour, Groups: []string{"system:bootstrappers:rack-7"}}, ""},
		{"over already", Options{TTL: -time.Hour}, "--ttl is -1h"},
		{"a group of users", Options{Groups: []string{"system:masters"}}, `--groups "system:masters" is not a group of bootstrap tokens`},
		{"two groups in one", Options{Groups: []string{"system:bootstrappers:a,system:masters"}}, "is not a group of bootstrap tokens"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			err := tt.options.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}

func TestList(t *testing.T) {
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-of-mine"}}
	broken := Options{}.secret("brokn1.0123456789abcdef", testNow)
	broken.Data["auth-extra-groups"] = []byte("system:masters")
	client := fake.NewClientset(foreign, broken,
		Options{TTL: 90 * time.Minute, Description: "rack 7"}.secret("aaaaaa.0123456789abcdef", testNow),
		Options{TTL: time.Minute}.secret("bbbbbb.0123456789abcdef", testNow.Add(-time.Hour)),
		Options{Groups: []string{"system:bootstrappers:a"}, Node: "edge-1"}.secret("cccccc.0123456789abcdef", testNow),
	)
	var out bytes.Buffer
	if err := List(context.Background(), client.CoreV1().Secrets("kube-system"), &out, testNow); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.Join(strings.Fields(line), " "))
	}
	want := []string{
		"ID EXPIRES NODE GROUPS DESCRIPTION",
		"aaaaaa in 90m system:bootstrappers rack 7",
		"bbbbbb expired system:bootstrappers",
		"brokn1 never invalid",
		"cccccc never edge-1 system:bootstrappers,system:bootstrappers:a",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if strings.Contains(out.String(), "0123456789abcdef") {
		t.Error("the list shows secrets")
	}
}

func TestCreateAndDelete(t *testing.T) {
	client := fake.NewClientset()
	secrets := client.CoreV1().Secrets("kube-system")
	token, err := Create(t.Context(), secrets, Options{TTL: time.Hour}, testNow)
	if err != nil {
		t.Fatal(err)
	}
	id, secretPart, _ := strings.Cut(token, ".")
	stored, err := secrets.Get(t.Context(), "bootstrap-token-"+id, metav1.GetOptions{})
	if err != nil || string(stored.Data["token-secret"]) != secretPart {
		t.Fatalf("stored is %v, %v", stored, err)
	}
	for _, name := range []string{"ABCDEF", "abc", "abcdefg.0123456789abcdef", ""} {
		err := Delete(t.Context(), secrets, &bytes.Buffer{}, name)
		if err == nil || name != "" && strings.Contains(err.Error(), name) {
			t.Errorf("deleting %q: %v", name, err)
		}
	}
	// By the whole token, as a user may have noted it.
	if err := Delete(t.Context(), secrets, &bytes.Buffer{}, token); err != nil {
		t.Error(err)
	}
	if err := Delete(t.Context(), secrets, &bytes.Buffer{}, id); err == nil || err.Error() != "found no bootstrap token "+id {
		t.Errorf("deleting it again: %v", err)
	}
}

func TestKubeconfig(t *testing.T) {
	server := &rest.Config{
		Host:            "https://certplane.example:6443",
		TLSClientConfig: rest.TLSClientConfig{CAData: []byte("the CA"), CertData: []byte("admin"), KeyData: []byte("secret")},
		BearerToken:     "of the admin",
	}
	data, err := Kubeconfig("abcdef.0123456789abcdef", Options{TTL: time.Hour}, server, testNow)
	if err != nil {
		t.Fatal(err)
	}
	if want := "# Bootstrap token abcdef.0123456789abcdef works until 2030-05-17T13:00:00Z.\n"; !strings.HasPrefix(string(data), want) {
		t.Errorf("it begins with %q, want %q", data[:len(want)], want)
	}
	got, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	// It must not contain credentials of the user who created it.
	want := &rest.Config{Host: server.Host, BearerToken: "abcdef.0123456789abcdef", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("the CA")}}
	if got.String() != want.String() || got.BearerToken != want.BearerToken || string(got.CAData) != "the CA" {
		t.Errorf("config is %v, want %v", got, want)
	}
}
