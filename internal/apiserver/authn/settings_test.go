package authn

import (
	"strings"
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		reason string
		change func(*Settings)
		want   string // the error begins with it
	}{
		{"the defaults", func(*Settings) {}, ""},
		{"issuer is not a URL", func(s *Settings) { s.ServiceAccounts.Issuer = "me" }, "authentication.serviceAccounts.issuer: "},
		{"issuer without TLS", func(s *Settings) { s.ServiceAccounts.Issuer = "http://a.example" }, "authentication.serviceAccounts.issuer: "},
		{"issuer with a query", func(s *Settings) { s.ServiceAccounts.Issuer = "https://a.example/?b" }, "authentication.serviceAccounts.issuer: "},
		{"issuer without a host", func(s *Settings) { s.ServiceAccounts.Issuer = "https:///a" }, "authentication.serviceAccounts.issuer: "},
		{"former issuer of any form", func(s *Settings) { s.ServiceAccounts.FormerIssuers = []string{"kubernetes/serviceaccount"} }, ""},
		{"no former issuer", func(s *Settings) { s.ServiceAccounts.FormerIssuers = []string{"a", ""} }, "authentication.serviceAccounts.formerIssuers[1]: "},
		{"keys without TLS", func(s *Settings) { s.ServiceAccounts.KeysURI = "http://a.example" }, "authentication.serviceAccounts.keysURI: "},
		{"empty audience", func(s *Settings) { s.ServiceAccounts.APIAudiences = []string{""} }, "authentication.serviceAccounts.apiAudiences[0]: "},
		{"tokens for too short", func(s *Settings) { s.ServiceAccounts.MaxTokenExpiration.Duration = 59 * time.Minute }, "authentication.serviceAccounts.maxTokenExpiration: "},
		{"tokens for an hour", func(s *Settings) { s.ServiceAccounts.MaxTokenExpiration.Duration = time.Hour }, ""},
		{"tokens for too long", func(s *Settings) { s.ServiceAccounts.MaxTokenExpiration.Duration = 200 * 365 * 24 * time.Hour }, "authentication.serviceAccounts.maxTokenExpiration: "},
		{"unknown webhook version", func(s *Settings) { s.Webhook.Version = "v2" }, "authentication.webhook.version: "},
		{"answers from the future", func(s *Settings) { s.Webhook.CacheTTL.Duration = -1 }, "authentication.webhook.cacheTTL: "},
		{"a proxy that cannot name users", func(s *Settings) { s.RequestHeader.CAFile, s.RequestHeader.UsernameHeaders = "ca", nil }, "authentication.requestHeader.usernameHeaders: "},
		{"headers do not matter without a proxy", func(s *Settings) { s.RequestHeader.UsernameHeaders = nil }, ""},
		{"a header without a name", func(s *Settings) { s.RequestHeader.CAFile, s.RequestHeader.GroupHeaders = "ca", []string{" "} }, "authentication.requestHeader.groupHeaders[0]: "},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			settings := DefaultSettings()
			tt.change(&settings)
			err := settings.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}
