package cainject

import (
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		reason string
		change func(*Settings)
		want   string
	}{
		{"defaults", func(*Settings) {}, ""},
		{"an unknown kind", func(s *Settings) { s.Targets = []string{"APIService", "Pod"} },
			`caInjector.targets[1]: "Pod" is not one of ValidatingWebhookConfiguration, MutatingWebhookConfiguration, CustomResourceDefinition, APIService`},
		{"both", func(s *Settings) { s.Namespace, s.IgnoreNamespaces = "a", []string{"b"} }, "caInjector.ignoreNamespaces: should not be used with namespace"},
		{"no namespace", func(s *Settings) { s.Namespace = "A" }, `caInjector.namespace: "A" cannot be a namespace: `},
	} {
		s := DefaultSettings()
		tt.change(&s)
		if err := s.Validate(); (err == nil) != (tt.want == "") || err != nil && !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.reason, err)
		}
	}
	for _, tt := range []struct {
		settings Settings
		want     bool
	}{{Settings{}, true}, {Settings{Namespace: "a"}, true}, {Settings{Namespace: "b"}, false}, {Settings{IgnoreNamespaces: []string{"b", "a"}}, false}} {
		if got := tt.settings.reads("a"); got != tt.want {
			t.Errorf("%+v: %t", tt.settings, got)
		}
	}
}
