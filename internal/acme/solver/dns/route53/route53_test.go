package route53

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/acme/solver/dns/ambient"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
)

const role = "arn:aws:iam::123456789012:role/dns"

func ref(key string) cmmeta.SecretKeySelector {
	return cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "aws"}, Key: key}
}

func withToken(role string) acmev1.ACMEIssuerDNS01ProviderRoute53 {
	return acmev1.ACMEIssuerDNS01ProviderRoute53{Role: role, Region: "eu-west-1", Auth: &acmev1.Route53Auth{Kubernetes: &acmev1.Route53KubernetesAuth{ServiceAccountRef: &acmev1.ServiceAccountRef{Name: "dns"}}}}
}

func refusal(_ int, message string) string {
	var escaped bytes.Buffer
	xml.EscapeText(&escaped, []byte(message))
	return fmt.Sprintf(refusalXML, "AccessDenied", escaped.String())
}

func TestConformance(t *testing.T) {
	keyID := ref("id")
	tests := []struct {
		reason string
		spec   acmev1.ACMEIssuerDNS01ProviderRoute53
	}{
		{reason: "key", spec: acmev1.ACMEIssuerDNS01ProviderRoute53{SecretAccessKeyID: &keyID, SecretAccessKey: ref("secret")}},
		{reason: "key with a role, fixed zone", spec: acmev1.ACMEIssuerDNS01ProviderRoute53{SecretAccessKeyID: &keyID, SecretAccessKey: ref("secret"), Role: role, HostedZoneID: "Z-PUBLIC"}},
		{reason: "token of a service account", spec: withToken(role)},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			providertest.Run(t, providertest.Case{
				New: func(ctx context.Context, env provider.Env) (provider.Provider, error) {
					env.Token = func(ctx context.Context, account string, audiences []string, lifetime time.Duration) (string, error) {
						if account != "dns" || lifetime != 10*time.Minute || len(audiences) != 1 || audiences[0] != "sts.amazonaws.com" {
							t.Errorf("token for %s, %q, %s", account, audiences, lifetime)
						}
						token, err := env.Secret(ctx, "aws", "token")
						return string(token), err
					}
					return New(ctx, env, &test.spec)
				},
				API: func(valid *providertest.Secrets) providertest.API {
					return &standIn{t: t, token: func() string { return valid.Value("aws/token") }, secret: func(id string) string {
						if id == strings.TrimSpace(valid.Value("aws/id")) {
							return strings.TrimSpace(valid.Value("aws/secret"))
						}
						return ""
					}}
				},
				Secrets:   map[string]string{"aws/id": "AKIA-FIRST\n", "aws/secret": "first-secret\n", "aws/token": "first-token"},
				Rotated:   map[string]string{"aws/id": "AKIA-OTHER", "aws/secret": "other-secret", "aws/token": "other-token"},
				Sensitive: []string{"first-secret", assumedSecret, assumedSession},
				Refusal:   refusal,
			})
		})
	}
}

func TestErrors(t *testing.T) {
	const prefix = "error instantiating route53 challenge solver: unable to construct route53 provider: "
	keyID := ref("id")
	tests := []struct {
		reason string
		spec   acmev1.ACMEIssuerDNS01ProviderRoute53
		want   string
	}{
		{reason: "nothing", want: prefix + "empty credentials; perhaps you meant to enable ambient credentials?"},
		{reason: "no secret", spec: acmev1.ACMEIssuerDNS01ProviderRoute53{AccessKeyID: "AKIA"}, want: prefix + "only one of access and secret key was provided"},
		{reason: "no ID", spec: acmev1.ACMEIssuerDNS01ProviderRoute53{SecretAccessKey: ref("secret")}, want: prefix + "only one of access and secret key was provided"},
		{reason: "token without role", spec: withToken(""), want: prefix + "role must be set when web identity token is set"},
		{reason: "two IDs", spec: acmev1.ACMEIssuerDNS01ProviderRoute53{AccessKeyID: "AKIA", SecretAccessKeyID: &keyID}, want: "route53 accessKeyID and accessKeyIDSecretRef cannot both be specified"},
		{reason: "missing key", spec: acmev1.ACMEIssuerDNS01ProviderRoute53{AccessKeyID: "AKIA", SecretAccessKey: ref("other")}, want: `error getting route53 secret access key: specified key "other" not found in secret ns/aws`},
		{reason: "a region that would be another host", spec: acmev1.ACMEIssuerDNS01ProviderRoute53{AccessKeyID: "AKIA", SecretAccessKey: ref("secret"), Region: "x.example.net/"}, want: prefix + `"x.example.net/" is not a valid AWS region`},
		{reason: "newline in the ID", spec: acmev1.ACMEIssuerDNS01ProviderRoute53{AccessKeyID: "AK\nIA", SecretAccessKey: ref("secret")}, want: prefix + "the access key ID is invalid (does it contain a newline?)"},
		{reason: "role that is not allowed", spec: acmev1.ACMEIssuerDNS01ProviderRoute53{AccessKeyID: "AKIA", SecretAccessKey: ref("secret"), Role: role},
			want: "error instantiating route53 challenge solver: unable to assume role: HTTP status 403 Forbidden: InvalidClientTokenId: The security token included in the request is invalid."},
		{reason: "token that is not known", spec: withToken(role),
			want: "error instantiating route53 challenge solver: unable to assume role with web identity: HTTP status 400 Bad Request: InvalidIdentityToken: Couldn't retrieve verification key from your identity provider"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			api := &standIn{t: t, secret: func(string) string { return "" }, token: func() string { return "another" }}
			env := providertest.Env(providertest.Client(t, api), providertest.NewSecrets(map[string]string{"aws/secret": "secret", "aws/id": "AKIA"}))
			if _, err := New(t.Context(), env, &test.spec); err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

func TestPlaces(t *testing.T) {
	tests := []struct {
		reason  string
		region  string // of the solver
		env     string
		ambient bool
		role    string
		want    []string // host of Route 53, its region, URL of STS
	}{
		{reason: "nothing said", want: []string{"route53.amazonaws.com", "us-east-1", "https://sts.us-east-1.amazonaws.com/"}},
		{reason: "region", region: "eu-west-1", want: []string{"route53.amazonaws.com", "us-east-1", "https://sts.eu-west-1.amazonaws.com/"}},
		{reason: "China", region: "cn-north-1", want: []string{"route53.amazonaws.com.cn", "cn-northwest-1", "https://sts.cn-north-1.amazonaws.com.cn/"}},
		{reason: "China by the role", role: "arn:aws-cn:iam::1:role/x", want: []string{"route53.amazonaws.com.cn", "cn-northwest-1", "https://sts.cn-northwest-1.amazonaws.com.cn/"}},
		{reason: "US government", region: "us-gov-east-1", want: []string{"route53.us-gov.amazonaws.com", "us-gov-west-1", "https://sts.us-gov-east-1.amazonaws.com/"}},
		{reason: "the environment, with ambient credentials", region: "eu-west-1", env: "eu-north-1", ambient: true, want: []string{"route53.amazonaws.com", "us-east-1", "https://sts.eu-north-1.amazonaws.com/"}},
		{reason: "the solver, with its own credentials", region: "eu-west-1", env: "eu-north-1", want: []string{"route53.amazonaws.com", "us-east-1", "https://sts.eu-west-1.amazonaws.com/"}},
		{reason: "the environment, if the solver has none", env: "eu-north-1", want: []string{"route53.amazonaws.com", "us-east-1", "https://sts.eu-north-1.amazonaws.com/"}},
	}
	for _, test := range tests {
		p, err := findPlace(&acmev1.ACMEIssuerDNS01ProviderRoute53{Region: test.region, Role: test.role}, test.env, test.ambient)
		if diff := cmp.Diff(test.want, []string{p.route53, p.home, p.stsURL()}); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", test.reason, err, diff)
		}
	}
}

// metadataServer is the service of an instance or a container.
func metadataServer(dns http.Handler) http.Handler {
	const answer = `{"Code":"Success","AccessKeyId":"AKIA-META","SecretAccessKey":"meta-secret","Token":"","Expiration":"2026-11-23T18:00:00Z"}`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch host, token := r.Host, r.Header.Get("X-Aws-Ec2-Metadata-Token"); {
		case host == "169.254.169.254" && r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") != "":
			fmt.Fprint(w, "imds-token")
		case host == "169.254.169.254" && token == "imds-token" && r.URL.Path == "/latest/meta-data/iam/security-credentials/":
			fmt.Fprint(w, "node-role")
		case host == "169.254.169.254" && token == "imds-token" && r.URL.Path == "/latest/meta-data/iam/security-credentials/node-role",
			host == "169.254.170.2" && r.URL.Path == "/v2/credentials/1",
			host == "169.254.170.23" && r.Header.Get("Authorization") == "pod-token":
			fmt.Fprint(w, answer)
		case host == "169.254.169.254" || host == "169.254.170.2" || host == "169.254.170.23":
			http.Error(w, "no", http.StatusUnauthorized)
		default:
			dns.ServeHTTP(w, r)
		}
	})
}

func TestAmbientCredentials(t *testing.T) {
	tests := []struct {
		reason string
		env    map[string]string
		role   string
		roles  []string
		refuse bool // ambient credentials are not allowed
		want   string
	}{
		{reason: "variables", env: map[string]string{"AWS_ACCESS_KEY_ID": "AKIA-META", "AWS_SECRET_ACCESS_KEY": "meta-secret"}},
		{reason: "variables, not allowed", env: map[string]string{"AWS_ACCESS_KEY_ID": "AKIA-META", "AWS_SECRET_ACCESS_KEY": "meta-secret"}, refuse: true,
			want: "error instantiating route53 challenge solver: unable to construct route53 provider: empty credentials; perhaps you meant to enable ambient credentials?"},
		{reason: "a token in a file", env: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": "arn:pod"}, roles: []string{"arn:pod"}},
		{reason: "a token in a file, then a role", env: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": "arn:pod"}, role: role, roles: []string{"arn:pod", role}},
		{reason: "a container of ECS", env: map[string]string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/1"}},
		{reason: "a pod of EKS", env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/pod"}},
		{reason: "a container elsewhere without TLS", env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://192.0.2.1/"},
			want: "error instantiating route53 challenge solver: unable to construct route53 provider: AWS_CONTAINER_CREDENTIALS_FULL_URI must begin with https://, or name a loopback address or an agent of AWS"},
		{reason: "an instance"},
		{reason: "an instance, then a role", role: role, roles: []string{role}},
		{reason: "an instance whose service must not be asked", env: map[string]string{"AWS_EC2_METADATA_DISABLED": "true"},
			want: "error instantiating route53 challenge solver: unable to construct route53 provider: no ambient credentials: neither variables nor a container have any, and AWS_EC2_METADATA_DISABLED is set"},
		{reason: "a file that is missing", env: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/missing", "AWS_ROLE_ARN": "arn:pod"},
			want: "error instantiating route53 challenge solver: unable to construct route53 provider: reading AWS_WEB_IDENTITY_TOKEN_FILE: open /missing: file does not exist"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			api := &standIn{t: t, token: func() string { return "file-token" }, secret: func(id string) string { return map[string]string{"AKIA-META": "meta-secret"}[id] }}
			client := providertest.Client(t, metadataServer(api), "169.254.169.254", "169.254.170.2", "169.254.170.23")
			env := providertest.Env(client, providertest.NewSecrets(nil))
			env.Ambient = !test.refuse
			host := ambient.Host{Getenv: func(name string) string { return test.env[name] }, ReadFile: func(path string) ([]byte, error) {
				content, found := map[string]string{"/token": "file-token\n", "/pod": "pod-token\n"}[path]
				if !found {
					return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
				}
				return []byte(content), nil
			}}
			p, err := newProvider(t.Context(), env, &acmev1.ACMEIssuerDNS01ProviderRoute53{Role: test.role}, host, defaultMetadata())
			if err == nil {
				err = p.Present(t.Context(), provider.Record{FQDN: "_acme-challenge.example.com.", Zone: "example.com.", Value: "v"})
			}
			if got := fmt.Sprint(err); got != test.want && (test.want != "" || err != nil) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
			if diff := cmp.Diff(test.roles, api.roles); diff != "" {
				t.Errorf("assumed roles (-want +got):\n%s", diff)
			}
		})
	}
}

// Too many calls are status 400 at Route 53.
func TestThrottling(t *testing.T) {
	for _, code := range []string{"Throttling", "PriorRequestNotComplete"} {
		client := providertest.Client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3")
			refuse(w, http.StatusBadRequest, code, "Rate exceeded")
		}))
		env := providertest.Env(client, providertest.NewSecrets(map[string]string{"aws/secret": "secret"}))
		p, err := New(t.Context(), env, &acmev1.ACMEIssuerDNS01ProviderRoute53{AccessKeyID: "AKIA", SecretAccessKey: ref("secret")})
		if err != nil {
			t.Fatal(err)
		}
		err = p.CleanUp(t.Context(), provider.Record{FQDN: "_acme-challenge.example.com.", Zone: "example.com.", Value: "v"})
		if temporary := (*provider.TemporaryError)(nil); !errors.As(err, &temporary) || temporary.RetryAfter != 3*time.Second {
			t.Errorf("%s: %v", code, err)
		}
	}
}
