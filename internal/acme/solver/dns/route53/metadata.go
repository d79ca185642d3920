package route53

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
	"github.com/certplane/certplane/internal/process/sigv4"
)

// metadata describes where a process finds the credentials of its container or instance.
type metadata struct {
	// container is the URL before AWS_CONTAINER_CREDENTIALS_RELATIVE_URI.
	container string
	// instance is the URL of the instance metadata service.
	instance string
}

func defaultMetadata() metadata {
	return metadata{container: "http://169.254.170.2", instance: "http://169.254.169.254"}
}

const (
	// metadataTimeout is the maximum time of a call: the service is on the same host or
	// does not exist.
	metadataTimeout = 5 * time.Second
	// instanceTokenSeconds is how long tokens for the instance metadata service
	// are valid.
	instanceTokenSeconds = "60"
)

// plainHosts are the hosts that may be asked for the credentials of a container without
// TLS, in addition to loopback addresses: the agents of ECS and EKS.
var plainHosts = []string{"169.254.170.2", "169.254.170.23", "fd00:ec2::23"}

func (s source) fromMetadata(ctx context.Context) (sigv4.Credentials, error) {
	address := s.host.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	if relative := s.host.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"); relative != "" {
		address = s.metadata.container + relative
	}
	if address != "" {
		return s.fromContainer(ctx, address)
	}
	if strings.EqualFold(s.host.Getenv("AWS_EC2_METADATA_DISABLED"), "true") {
		return sigv4.Credentials{}, errors.New("no ambient credentials: neither variables nor a container have any, and AWS_EC2_METADATA_DISABLED is set")
	}
	found, err := s.fromInstance(ctx)
	if err != nil {
		return sigv4.Credentials{}, fmt.Errorf("no ambient credentials: neither variables nor a container have any, and the instance has none: %w", err)
	}
	return found, nil
}

// metadataCredentials are credentials in an answer of a metadata service.
type metadataCredentials struct {
	AccessKeyID     string `json:"AccessKeyId"`
	SecretAccessKey string `json:"SecretAccessKey"`
	Token           string `json:"Token"`
}

func (c metadataCredentials) credentials() (sigv4.Credentials, error) {
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return sigv4.Credentials{}, errors.New("the answer of the metadata service has no credentials")
	}
	return sigv4.Credentials{KeyID: c.AccessKeyID, Secret: c.SecretAccessKey, Session: c.Token}, nil
}

func (s source) fromContainer(ctx context.Context, address string) (sigv4.Credentials, error) {
	if err := checkContainerURL(address); err != nil {
		return sigv4.Credentials{}, err
	}
	token := s.host.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN")
	if file := s.host.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); file != "" {
		content, err := s.host.ReadFile(file)
		if err != nil {
			return sigv4.Credentials{}, fmt.Errorf("reading AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: %w", err)
		}
		token = strings.TrimSpace(string(content))
	}
	if restcall.CheckHeader(token) != nil {
		return sigv4.Credentials{}, errors.New("the authorization token of the container contains a control character")
	}
	header := http.Header{}
	if token != "" {
		header.Set("Authorization", token)
	}
	var answer metadataCredentials
	if _, err := s.metadataClient(token).JSON(ctx, http.MethodGet, address, header, nil, &answer); err != nil {
		return sigv4.Credentials{}, fmt.Errorf("reading the credentials of the container: %w", err)
	}
	return answer.credentials()
}

func checkContainerURL(address string) error {
	parsed, err := url.Parse(address)
	if err != nil {
		return errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI is not a URL")
	}
	ip, err := netip.ParseAddr(parsed.Hostname())
	loopback := parsed.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	if parsed.Scheme == "https" || parsed.Scheme == "http" && (loopback || slices.Contains(plainHosts, parsed.Hostname())) {
		return nil
	}
	return errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI must begin with https://, or name a loopback address or an agent of AWS")
}

// fromInstance asks the instance metadata service, version 2.
func (s source) fromInstance(ctx context.Context) (sigv4.Credentials, error) {
	api := s.metadataClient()
	token, err := api.Call(ctx, restcall.Request{
		Method: http.MethodPut, URL: s.metadata.instance + "/latest/api/token",
		Header: http.Header{"X-Aws-Ec2-Metadata-Token-Ttl-Seconds": {instanceTokenSeconds}},
	})
	if err != nil {
		return sigv4.Credentials{}, err
	}
	if restcall.CheckHeader(string(token.Body)) != nil {
		return sigv4.Credentials{}, errors.New("the token of the instance metadata service contains a control character")
	}
	api.Hide(string(token.Body))
	header := http.Header{"X-Aws-Ec2-Metadata-Token": {string(token.Body)}}
	const path = "/latest/meta-data/iam/security-credentials/"
	roles, err := api.Call(ctx, restcall.Request{Method: http.MethodGet, URL: s.metadata.instance + path, Header: header})
	if err != nil {
		return sigv4.Credentials{}, err
	}
	role, _, _ := strings.Cut(strings.TrimSpace(string(roles.Body)), "\n")
	var answer metadataCredentials
	if _, err := api.JSON(ctx, http.MethodGet, s.metadata.instance+path+strings.TrimPrefix(restcall.Path(role), "/"), header, nil, &answer); err != nil {
		return sigv4.Credentials{}, err
	}
	return answer.credentials()
}

func (s source) metadataClient(secrets ...string) *restcall.Client {
	return restcall.New(restcall.Config{HTTP: s.env.Metadata, Now: s.env.Now, Timeout: metadataTimeout, Secrets: secrets})
}
