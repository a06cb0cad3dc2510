// Who asks. Where the service wants a token, it is asked for once; a cookie stands for it then.

import { get, post, request, whenUnauthorized } from "./api.js";
import { fail } from "./cards.js";
import { byId } from "./dom.js";

let asking; // a promise while the dialog is open
let leaving = false; // from a log-out until the page is loaded anew

// start gives the session, when there is one. again is called when another one begins later.
export async function start(again) {
  whenUnauthorized(async () => {
    // What is refused after a log-out asks for no token here: what is typed would go with this page.
    if (asking || leaving) return;
    again(await askToken());
  });
  byId("logout").addEventListener("click", async () => {
    leaving = true;
    try {
      await request("DELETE", "/v1/session");
      try {
        sessionStorage.clear(); // what was typed is not the next user's
      } catch {
        // It is forbidden, and so is empty.
      }
      location.reload();
    } catch (error) {
      leaving = false;
      fail("You are still logged in", error);
    }
  });
  try {
    return await get("/v1/session", { quiet: true });
  } catch (error) {
    if (error.status === 401) return askToken();
    throw error;
  }
}

// askToken asks for a token until one is taken.
function askToken() {
  asking =
    asking ??
    new Promise((resolve) => {
      const [dialog, form, token, said] = ["login", "login-form", "token", "login-error"].map(byId);
      dialog.addEventListener("cancel", (event) => event.preventDefault());
      form.onsubmit = async (event) => {
        event.preventDefault();
        said.textContent = "";
        try {
          const headers = { Authorization: "Bearer " + token.value.trim() };
          const session = await post("/v1/session", { headers, quiet: true });
          token.value = "";
          dialog.close();
          asking = undefined;
          resolve(session);
        } catch (error) {
          said.textContent = error.status === 401 ? "This token is not known here." : error.message;
          token.focus();
          token.select();
        }
      };
      dialog.showModal();
      token.focus();
    });
  return asking;
}
