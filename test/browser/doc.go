// Package browser uses the console like a person: in Chromium, with keyboard and pointer,
// against the built "certplane serve" and "certplane console". It also checks each page
// with axe.
//
// It is a separate module because the product must not depend on the browser driver.
// install.sh installs Chromium and axe; they are not part of the product.
package browser
