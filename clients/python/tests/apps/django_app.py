import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import re_path

settings.configure(
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="for tests",
    ROOT_URLCONF=__name__,
    MIDDLEWARE=["penstock.django.PenstockMiddleware"],
    PENSTOCK={"URL": os.environ["SERVICE_URL"], "TIMEOUT": 60, "ON_ERROR": "deny", "HEADERS": {"user": "X-User"}, "RESPONSE_HEADERS": ["X-Login"]},
)



def answer(request):
    told = request.headers.get("X-Answer", "200")
    if told == "failed":
        return HttpResponse("ok", headers={"X-Login": told})
    return HttpResponse("ok", status=int(told))


urlpatterns = [re_path("", answer)]
application = get_wsgi_application()
