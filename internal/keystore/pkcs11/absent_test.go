//go:build !pkcs11

package pkcs11

import (
	"strings"
	"testing"
)

func TestAbsent(t *testing.T) {
	err := Validate("pkcs11:object=a" + module)
	if err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=1 go build -tags pkcs11 ./cmd/certplane") {
		t.Errorf("error %v does not say how to build with PKCS#11", err)
	}
	if _, err := Open("pkcs11:object=a" + module); err == nil {
		t.Error("opened")
	}
}
