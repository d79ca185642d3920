package acme

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if runWebhook() {
		return
	}
	stop := startPublicWeb()
	code := m.Run()
	stop()
	os.Exit(code)
}
